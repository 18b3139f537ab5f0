"""How a page looks: quiet, in light and in dark, as the browser is set."""

# Colours of lines differ for people who do not tell red from green, too; those of use go from cool to hot,
# as in the pictures of plans.
STYLE = """\
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fdfdfc;--ink:#16181b;--soft:#5b6068;--rule:#e3e3df;
--base:#b4b6ba;--bed:#d9dbde;--idle:#c9ccd0;--down:#c3212f;
--use0:#5f8fc4;--use1:#c39312;--use2:#d9602b;--use3:#a3002d;
--c1:#2a78d6;--c2:#e0632c;--c3:#159a6c;--c4:#c98a00;--c5:#d45a8c;--c6:#4a3aa7;--c7:#6b7f1e;--c8:#8a5a3c}
@media (prefers-color-scheme:dark){:root{--page:#131416;--card:#1b1d20;--ink:#e8e9eb;--soft:#a0a5ad;
--rule:#2c2f34;--base:#565b63;--bed:#3b4047;--idle:#474c54;--down:#ff6b78;
--use0:#6fa0d8;--use1:#d6ab3a;--use2:#ea7a45;--use3:#ff5577;
--c1:#4b96ee;--c2:#ea7a45;--c3:#2db587;--c4:#d9a02a;--c5:#e57aa5;--c6:#9c90f0;--c7:#a3b84e;--c8:#c4926f}}
*{box-sizing:border-box}
body{margin:0;padding:1.6rem clamp(1rem,3vw,3rem);background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:1.25rem;margin:0}
header p{margin:.2rem 0 0;color:var(--soft)}
header .problem{color:var(--down)}
.none,.note{margin:0;color:var(--soft)}
.note{margin:.4rem 0 0;font-size:.85rem}
main,main>div{display:grid;grid-template-columns:minmax(0,1fr);gap:1.2rem;align-items:start}
main{margin-top:1.2rem}
@media (min-width:68rem){main{grid-template-columns:minmax(0,1fr) minmax(0,1.12fr)}.full{grid-column:1/-1}}
figure,section{margin:0;padding:1rem 1.2rem;background:var(--card);border:1px solid var(--rule);
border-radius:8px}
figcaption,caption,.title{font-weight:600;text-align:left;margin:0;padding:0 0 .7rem}
svg{display:block;width:100%;height:auto;margin:0 auto}
svg text{fill:var(--ink);font-size:13px}
svg .soft{fill:var(--soft);font-size:12px}
svg path{fill:none}
.grid{stroke:var(--rule)}
.base{stroke:var(--base)}
.mark{stroke:var(--soft);stroke-dasharray:2 3}
.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}
.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}.c8{--c:var(--c8)}
.line,.dashed,.leader{stroke:var(--c);stroke-linejoin:round;stroke-linecap:round}
.line{stroke-width:2.2}
.dashed{stroke-width:1.5;stroke-dasharray:4 6}
.leader{stroke-width:1.2}
.line circle{fill:var(--c);stroke:none}
.dashed circle{fill:var(--card);stroke-dasharray:none}
.use0{--u:var(--use0)}.use1{--u:var(--use1)}.use2{--u:var(--use2)}.use3{--u:var(--use3)}
.idle{--u:var(--idle)}.unknown{--u:var(--soft)}.down{--u:var(--down)}
.hit{stroke:transparent;stroke-width:10;pointer-events:stroke}
.link .bed{stroke:var(--bed)}
.link .load{stroke:var(--u)}
.down .load{stroke-dasharray:4 4}
.unknown .load{stroke-dasharray:1 4}
svg .arrow{fill:var(--u);stroke:var(--card)}
.link:hover .load{stroke:var(--ink)}
.node circle{fill:var(--ink);stroke:var(--card);stroke-width:2}
.told circle{fill:var(--card);stroke:var(--soft)}
svg .told text{fill:var(--soft)}
.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.8rem 0 0;padding:0;
color:var(--soft);font-size:.85rem}
.key i{display:inline-block;width:1.5rem;height:.45rem;margin-right:.4rem;vertical-align:.1em;
background:var(--u)}
.key .bed{--u:var(--bed)}
.key .down{height:2px;vertical-align:.3em;
background:repeating-linear-gradient(90deg,var(--u) 0 4px,transparent 4px 8px)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.86rem}
th{color:var(--soft);font-weight:500}
th,td{padding:.28rem .38rem;text-align:right;border-bottom:1px solid var(--rule)}
td{white-space:nowrap}
th.word,td.word{text-align:left}
td:first-child{min-width:5rem}
td.word{white-space:normal;overflow-wrap:anywhere}
.swatch{display:inline-block;width:.7em;height:.7em;margin-right:.5em;border-radius:2px;background:var(--c)}
.bar{display:inline-block;width:2.4rem;height:.4rem;margin-right:.4em;vertical-align:.1em;
background:var(--bed)}
.bar i{display:block;height:100%;background:var(--soft)}
"""
