"""What every report is made of: tables, figures that follow light and dark, and one page without outside resources."""
