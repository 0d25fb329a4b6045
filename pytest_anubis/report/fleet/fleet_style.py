"""The style of a fleet's pages on top of the dossier's: shades of cells, boxes on top, what is printed."""

from __future__ import annotations

LIGHT = ("#ffffff", "#fdf0e2", "#fbdcbc", "#f4b27c", "#cf5f1c", "#8a2f06")
DARK = ("#16181b", "#33291f", "#523620", "#7d4a20", "#c2621f", "#ffb27a")
"""Background of a cell by the shade of its loss (`fleet_view.LEVELS`), light and dark: one hue that ends far
from where it begins, so that it is distinguished by lightness alone."""
LIGHT_TEXT = ("#1d1d1f", "#1d1d1f", "#1d1d1f", "#1d1d1f", "#000000", "#ffffff")
DARK_TEXT = ("#e4e4e2", "#e4e4e2", "#e4e4e2", "#ffffff", "#000000", "#000000")
"""Text upon it; every pair has a contrast of 4.5 at the least, which a test computes."""

PRINTED = 14
"""Metrics of the heat map that are printed, those with most failures: as many as an upright page holds."""


def _shades(backgrounds: tuple[str, ...], texts: tuple[str, ...]) -> str:
    pairs = zip(backgrounds, texts, strict=True)
    return "".join(
        f".heat .h{n}{{background:{back};color:{ink}}}.heat .h{n} a{{color:{ink}}}"
        for n, (back, ink) in enumerate(pairs)
    )


FLEET = f"""
body.anubis{{max-width:110em}}
.skip{{position:absolute;left:-99em}}.skip:focus{{position:static}}
nav ul{{display:flex;flex-wrap:wrap;gap:.1em 1.1em;list-style:none;padding:0;margin:.6em 0}}
.glance{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22em,100%),1fr));gap:0 1.2em}}
.glance .card{{margin:.5em 0}}.glance h2{{margin:0 0 .3em;border:0;padding:0;font-size:1.1em}}
.glance li{{margin:.25em 0}}
.tools{{display:flex;flex-wrap:wrap;gap:.5em 1em;align-items:end;margin:.6em 0}}
.tools label{{display:grid;font-size:.86em}}
.tools :is(input,select,button),.pages button{{font:inherit;padding:.3em .5em;border:1px solid #767676;
border-radius:.3em;background:Field;color:FieldText;min-height:2.1em;max-width:100%}}
.tools input{{width:15em}}.tools select{{max-width:17em}}
.pages{{display:flex;flex-wrap:wrap;gap:.4em .8em;align-items:center;margin:.5em 0}}
.pages p{{margin:0}}
:focus-visible{{outline:3px solid #00599b;outline-offset:1px}}
.grid{{overflow:auto;max-height:85vh;border:1px solid var(--line)}}
.anubis .heat{{margin:0;border-collapse:separate;border-spacing:0;font-size:.86em}}
.anubis .heat :is(td,th){{padding:.18em .45em;border-right:1px solid var(--line);white-space:nowrap;
vertical-align:middle}}
.anubis .heat td.c{{text-align:center;min-width:3.3em;padding:.18em .2em;cursor:pointer}}
.heat td.FAIL{{font-weight:700}}.heat td.c a{{text-decoration:none}}
.heat td.c a:hover{{text-decoration:underline}}
.anubis .heat thead th{{position:sticky;top:0;z-index:2;background:var(--paper);vertical-align:bottom}}
.heat thead th.m{{height:13em;font-weight:400}}
.heat thead th.m div{{writing-mode:vertical-rl;transform:rotate(180deg);max-height:12em;overflow:hidden;
text-overflow:ellipsis;margin:0 auto;line-height:1.15}}
.heat thead th.m button{{font:inherit;border:0;background:none;color:inherit;cursor:pointer;padding:0 .3em}}
.heat :is(tbody th,thead th:first-child){{position:sticky;left:0;z-index:1;background:var(--paper);
text-align:left;max-width:14em;overflow:hidden;text-overflow:ellipsis}}
.anubis .heat thead th:first-child{{z-index:3}}
.heat .mark{{font-size:.9em;border:1px solid #767676;border-radius:.3em;padding:0 .3em}}
.heat tr:hover :is(td.h0,th){{background:color-mix(in srgb,var(--paper) 88%,#808080)}}
.legend span{{display:inline-block;padding:.1em .6em;margin:.1em .3em .1em 0;border:1px solid var(--line)}}
.b{{white-space:nowrap}}.bar{{display:inline-block;height:.8em;background:#0072b2;vertical-align:baseline;margin-right:.4em}}
.bar.bad{{background:#b3400b}}.bar.open{{background:#7f5a00}}.bar.good{{background:#00704f}}
[hidden]{{display:none!important}}button:disabled{{opacity:.55}}
.sortable button{{font:inherit;font-weight:600;border:0;background:none;color:inherit;padding:0;
cursor:pointer;text-align:inherit}}
.sortable [aria-sort=ascending]>button::after{{content:' \\2191'}}
.sortable [aria-sort=descending]>button::after{{content:' \\2193'}}
.fans figure{{margin:0}}
.names{{columns:12em;font-size:.9em}}
.whole{{margin:.6em 0}}.whole figcaption{{font-size:.86em}}
.map{{width:100%;image-rendering:pixelated;border:1px solid var(--line);display:block;cursor:pointer}}
.groups{{display:flex;list-style:none;padding:0!important;margin:0!important;font-size:.78em}}
.groups li{{overflow:hidden;white-space:nowrap;text-overflow:ellipsis;border-left:1px solid #767676;
padding-left:.2em}}
body.anubis{{--paper:#ffffff}}{_shades(LIGHT, LIGHT_TEXT)}
@media screen and (prefers-color-scheme:dark){{
body.anubis{{--paper:#16181b}}:focus-visible{{outline-color:#8ec7f0}}
.bar{{background:#5fb3e8}}.bar.bad{{background:#f0894a}}.bar.open{{background:#e0b040}}
.bar.good{{background:#35c198}}{_shades(DARK, DARK_TEXT)}}}
@media (max-width:40em){{.tools{{display:grid;grid-template-columns:1fr 1fr}}
.tools :is(input,select){{width:100%}}.grid{{max-height:80vh}}.heat .t{{display:none}}
.heat thead th.m{{height:9em}}.heat thead th.m div{{max-height:8em}}
.heat :is(tbody th,thead th:first-child){{max-width:8em}}}}
@media print{{body.anubis{{--paper:#fff}}
.tools,.pages button,nav,.skip,.heat thead th.m button,.all{{display:none}}
.grid{{overflow:visible;max-height:none}}.heat :is(th,td){{position:static!important}}
.heat .late{{display:none}}
.heat td.c,.bar{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
.anubis .heat td.c{{min-width:0;padding:.1em .15em;font-size:.85em}}}}
"""
