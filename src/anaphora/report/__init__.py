"""What every report is made of: tables, figures that follow light and dark, one page without outside
resources, and the folder for them."""
