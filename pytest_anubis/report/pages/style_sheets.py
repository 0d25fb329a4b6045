"""The style sheets: one for everything of ours wherever it stands, one more for pages of our own."""

from __future__ import annotations

from pytest_anubis.report.plots.canvas import BAD, CENTRE, SAMPLE, SHADE

BLOCKS = """
.anubis{--ink:#1d1d1f;--line:rgba(128,128,128,.28);
font:14px/1.45 system-ui,sans-serif;color:var(--ink)}
.anubis :is(td,th,summary,p,li){color:var(--ink)}
.anubis table{border-collapse:collapse;margin:.4em 0}
.anubis th,.anubis td{padding:.2em .9em .2em 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
.anubis th{font-weight:600;white-space:nowrap}
.anubis .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.anubis .wide{overflow-x:auto}
.anubis .verdict{display:inline-block;padding:.05em .55em;border-radius:.25em;color:#fff;
background:#5c5c5c;font-size:.88em;font-weight:600;letter-spacing:.02em;white-space:nowrap}
.anubis .verdict.PASS,.anubis .verdict.ACCEPTED{background:#00704f}
.anubis .verdict.FAIL,.anubis .verdict.REJECTED{background:#b3400b}
.anubis .verdict.MARGINAL,.anubis .verdict.INCONCLUSIVE,.anubis .verdict.UNDECIDED{background:#7f5a00}
.anubis .why{max-width:62em;margin:.4em 0}
.anubis .why b{font-weight:600}
.anubis .plots{display:flex;flex-wrap:wrap;gap:.6em 1.6em;align-items:flex-end;margin:.4em 0}
.anubis svg{max-width:100%;height:auto}
.anubis details{margin:.35em 0}
.anubis summary{cursor:pointer}
.anubis ul{margin:.3em 0;padding-left:1.4em}
.anubis .faint{opacity:.72}
@media print{.anubis .wide{overflow:visible}.anubis :is(td,th,.n){white-space:normal;padding-right:.5em}}
.anubis .kv{display:inline-block;margin-right:1.1em}
.anubis .kv i{font-style:normal;opacity:.65}
"""

_DARK_PLOTS = f"""
svg [stroke='{SAMPLE}']{{stroke:#5fb3e8}}svg [fill='{SAMPLE}']{{fill:#5fb3e8}}
svg [stroke='{CENTRE}']{{stroke:#35c198}}svg [stroke='{BAD}']{{stroke:#f0894a}}
svg [fill='{BAD}']{{fill:#f0894a}}svg [fill='{SHADE}']{{fill:rgba(240,137,74,.26)}}
"""

CARD = """
.card{border:1px solid var(--line);border-radius:.4em;padding:.8em 1em;margin:.8em 0;
break-inside:avoid}
.card.FAIL{border-left:5px solid #b3400b}.card.MARGINAL{border-left:5px solid #7f5a00}
.card :is(h2,h3){font-size:1em;margin:0 0 .2em;overflow-wrap:anywhere}
"""

PAGE = f"""
:root{{color-scheme:light dark}}
body.anubis{{margin:0 auto;padding:1.6em 1.2em 4em;max-width:74em;font-size:15px;line-height:1.5;
overflow-wrap:break-word}}
a{{color:#00599b;text-decoration-thickness:1px;text-underline-offset:.15em}}
h1{{font-size:1.65em;line-height:1.2;margin:.1em 0 .3em}}
h2{{font-size:1.2em;margin:2.2em 0 .5em;padding-bottom:.25em;border-bottom:2px solid var(--line)}}
h3{{font-size:1em;margin:0 0 .2em;overflow-wrap:anywhere}}
.banner{{border-left:7px solid #5c5c5c;padding:.2em 0 .2em 1em;margin:0 0 1.2em}}
.banner.ACCEPTED{{border-color:#00704f}}.banner.REJECTED{{border-color:#b3400b}}
.banner.UNDECIDED{{border-color:#7f5a00}}
.banner .verdict{{font-size:1em}}
.banner .headline{{font-size:1.12em;margin:.5em 0 .2em;max-width:50em}}
.facts{{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1.2em;margin:.6em 0}}
.facts dt{{opacity:.72}}.facts dd{{margin:0;overflow-wrap:anywhere}}
{CARD}
.case{{padding:.9em 0;border-top:1px solid var(--line);break-inside:avoid}}
.case h3{{display:inline}}
h2+.case,h2+p+.case{{border-top:0}}
h2:has(+.fans){{border-bottom:0;margin-bottom:0}}
.fans{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(25em,100%),1fr));gap:0 2em}}
.cases summary h3{{display:inline}}
@media (max-width:40em){{.stack tr{{display:block;border-bottom:1px solid var(--line);padding:.5em 0}}
.stack tr:first-child{{display:none}}.stack td{{display:block;border:0;padding:.1em 0}}
.facts{{grid-template-columns:1fr}}.facts dd{{margin-bottom:.4em}}
body.anubis{{padding:1em .8em 3em}}}}
@media screen and (prefers-color-scheme:dark){{body.anubis{{--ink:#e4e4e2;background:#16181b}}
a{{color:#8ec7f0}}{_DARK_PLOTS}}}
@page{{margin:12mm}}
@media print{{:root{{color-scheme:light}}
body.anubis{{padding:0;max-width:none;font-size:11px;background:#fff;--ink:#000}}
.verdict,.banner,.card,svg{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
details::details-content{{content-visibility:visible;block-size:auto}}summary{{list-style:none}}
h2{{break-after:avoid}}}}
"""

LARGE_PLOTS = ".anubis svg{width:min(100%,60rem)}"
"""For pages of a few plots that are their point."""

PYTEST_HTML = f"""
{CARD}
body{{min-width:0;max-width:90em;margin:0 auto;padding:1em;color:#1d1d1f;
font:13px system-ui,sans-serif;overflow-wrap:anywhere}}
.anubis .wide{{overflow-wrap:normal}}
h1,h2{{break-after:avoid}}
#environment{{width:max-content;max-width:100%}}
#environment td:first-child{{white-space:nowrap}}
.summary__data>h2,.logwrapper:not(:has(.log:not(:empty))){{display:none}}
h1{{overflow-wrap:anywhere}}
a,#results-table,.filters button,.collapse button{{color:#45484d}}
#results-table thead{{white-space:nowrap}}
#results-table details.skip,#results-table details.skip>summary{{display:inline}}
#results-table details.skip>summary::before{{content:'▸ '}}
#results-table details.skip[open]>summary::before{{content:'▾ '}}
#results-table .anubis :is(td,th){{border:0;border-bottom:1px solid var(--line)}}
:is(span.failed,span.error,span.xpassed,.failed .col-result,.error .col-result,
.xpassed .col-result){{color:#a03808}}
:is(span.passed,.passed .col-result){{color:#00643f}}
:is(span.skipped,span.xfailed,span.rerun,span.retried,.skipped .col-result,
.xfailed .col-result){{color:#6d4d00}}
.logwrapper{{max-height:none;overflow:visible}}.logwrapper .logexpander{{display:none}}
.logwrapper .log{{top:0;height:auto;overflow-x:auto}}
.filters{{flex-wrap:wrap}}.summary__data,.summary__spacer{{flex:initial}}
@media (max-width:50em){{.controls{{flex-wrap:wrap}}
#results-table,#results-table>:is(thead,tbody),#results-table>tbody>tr:not(.hidden){{display:block}}
#results-table>thead,#results-table>tbody>.collapsible>:is(.col-duration,.col-links,.col-anubis-similarity){{display:none}}
#results-table>tbody>.collapsible{{padding:.4em 0}}#results-table>tbody>.extras-row>td{{display:block}}
#results-table>tbody>.collapsible>td{{display:inline-block;width:auto;border:0}}}}
@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark}}body,#results-table{{color:#d6d6d2;
background:#16181b}}
body :is(h1,h2,p){{color:#e4e4e2}}.anubis{{--ink:#e4e4e2}}a,.filters button,.collapse button{{color:#8ec7f0}}
#results-table,#results-table>*>tr>:is(td,th),#environment td,.logwrapper,
.logwrapper .log{{border-color:#44484d}}
#environment tr:nth-child(odd){{background:#202327}}
.logwrapper,.logwrapper .logexpander{{background:#26292e}}.logwrapper .log{{color:#e4e4e2}}
:is(span.failed,span.error,span.xpassed,.failed .col-result,.error .col-result,
.xpassed .col-result){{color:#f0894a}}
:is(span.passed,.passed .col-result){{color:#35c198}}
:is(span.skipped,span.xfailed,span.rerun,span.retried,.skipped .col-result,
.xfailed .col-result){{color:#e0b040}}
{_DARK_PLOTS}}}
@media print{{:root{{color-scheme:light}}
body,.anubis{{font-size:11px}}body{{padding:0;background:#fff}}.controls,.filter{{display:none}}
.anubis :is(td,th){{overflow-wrap:break-word;padding:.2em .3em}}
.verdict,.card,svg{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
"""
"""For pytest-html's page: the decision before its table, its environment last, fit for a phone."""

PYTEST_HTML_SCRIPT = """
document.documentElement.lang='en';
const view=document.createElement('meta');view.name='viewport';
view.content='width=device-width, initial-scale=1';document.head.append(view);
document.addEventListener('DOMContentLoaded',()=>{
for(const box of document.querySelectorAll('input.filter'))
box.setAttribute('aria-label',box.dataset.testResult);
for(const list of document.querySelectorAll('#environment ul>ul'))list.remove();
const main=document.createElement('main');main.append(...document.body.childNodes);
for(const last of ['#environment-header','#environment','#anubis-inventory','main>p','main>footer'])
main.append(...main.querySelectorAll(last.replace('main>',':scope>')));
document.body.append(main);
});
"""
"""What pytest-html leaves out for those who cannot see it, and its environment last.

Its template has no hook for the order of its parts. Its page needs scripts anyway: they make every row, so
the order that they leave is the one that is read aloud and printed.
"""
