"""How the page looks: system fonts, one column, colours as variables so that figures follow light and dark."""

STYLE = """
:root { --paper: #ffffff; --ink: #1d1f21; --soft: #5c6166; --line: #dddfe2; --grid: #d9d9d9; --band: #f5f6f7;
        --off: #0072b2; --on: #c65300; --good: #1a7f37; --bad: #b35900;
        --green: #008a64; --pink: #c0679a; --amber: #d99400; --sky: #4aa8dd; --yellow: #e3d629; --grey: #9a9fa4; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181a; --ink: #e4e6e8; --soft: #a0a6ac; --line: #34383c; --grid: #3a3e42; --band: #1e2124;
          --off: #56b4e9; --on: #f08a3c; --good: #5cc377; --bad: #e9a24a;
          --green: #2fc296; --pink: #dd94bd; --amber: #f2b431; --sky: #a9dcf7; --yellow: #f0e442; --grey: #7d8388; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; }
header p, .note, figcaption { color: var(--soft); font-size: .9rem; margin: .25rem 0; }
dl.terms { display: grid; grid-template-columns: 9.5rem 1fr; gap: .35rem 1rem; margin: 1rem 0; }
dl.terms dt { font-weight: 600; overflow-wrap: anywhere; }
dl.terms dd { margin: 0; }
.answer { font-size: 1.15rem; background: var(--band); border-left: 4px solid var(--on); padding: .9rem 1.1rem;
          margin: 0; border-radius: 0 6px 6px 0; }
figure { margin: 0 0 2rem; overflow-x: auto; }
svg { display: block; width: 100%; height: auto; min-width: 34rem; }
figcaption { position: sticky; left: 0; }
svg text { font-family: inherit; }
summary { cursor: pointer; color: var(--soft); font-size: .95rem; padding: .3rem 0; }
.scroll { overflow-x: auto; margin: 1.25rem 0 .25rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 60%; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; word-break: keep-all; vertical-align: bottom; }
.left { text-align: left; white-space: normal; overflow-wrap: break-word; }
td.left { min-width: 10rem; max-width: 40rem; }
th:first-child, td:first-child { padding-left: 0; }
.checks { list-style: none; padding: 0; }
.checks li { display: grid; grid-template-columns: 1.6rem 11rem 1fr; gap: .2rem .6rem; padding: .35rem 0;
             border-bottom: 1px solid var(--line); }
.sign { font-weight: 700; color: var(--soft); }
.ok .sign { color: var(--good); }
.warning .sign { color: var(--bad); }
pre { background: var(--band); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
code { font: .88em/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; }
@media (max-width: 40rem) {
  main { padding: 1.25rem .9rem 3rem; }
  th, td { padding: .3rem .4rem; }
  td.left { min-width: 5.5rem; overflow-wrap: anywhere; }
  th { word-break: normal; }
  figcaption::before { content: "⇆ "; }
  .cards { font-size: .85rem; }
  .cards thead { display: none; }
  .cards, .cards caption, .cards tbody { display: block; }
  .cards tr { display: grid; grid-template-columns: repeat(3, 1fr); gap: .3rem .8rem; padding: .55rem 0;
              border-bottom: 1px solid var(--line); }
  .cards td { display: block; min-width: 0; padding: 0; border: 0; text-align: left; white-space: normal;
              overflow-wrap: break-word; }
  .cards td[data-label]::before { content: attr(data-label); display: block; color: var(--soft); font-size: .75rem;
                      line-height: 1.25; }
  .cards td.long { grid-column: span 2; }
  .cards td.whole, .cards td:first-child { grid-column: 1 / -1; }
  .cards td:first-child { font-weight: 600; }
  .cards td[data-label]:first-child::before { display: inline; font-weight: 400; margin-right: .5rem; }
  .cards td:empty { display: none; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .checks li { grid-template-columns: 1.6rem 1fr; }
  .checks li span:last-child { grid-column: 2; }
  dl.terms { grid-template-columns: 1fr; gap: .1rem; }
  dl.terms dd { margin-bottom: .6rem; } }
"""
