{# The fleet's page: search, filters and order of the heat map, and tables to be sorted. The page is whole without
it. Every text out of the data goes through `esc`; the page's policy lets no other script run. -#}
'use strict';
(()=>{
const byId=id=>document.getElementById(id);
const D=JSON.parse(byId('fleet').textContent),N=D.nodes,M=D.metrics,C=D.cells,K=D.kinds;
const esc=t=>String(t).replace(/[&<>"']/g,c=>'&#'+c.charCodeAt(0)+';');
const WORST=K.length;
const text=N.map(n=>[n[0],D.decisions[n[1]],n[2],n[5]].concat(n[4].map((v,i)=>v?D.traits[i]+' '+v:''))
.join(' ').toLowerCase());
const metricText=M.map(m=>(m[0]+' '+m[1]).toLowerCase());
const f={q:byId('q'),decision:byId('decision'),cls:byId('class'),trait:byId('trait'),m:byId('m'),
order:byId('order')};
const table=byId('heat'),body=table.tBodies[0],told=byId('told');
let page=0,wide=0,shown=N.map((_,i)=>i),columns=M.map((_,j)=>j);
const words=s=>s.toLowerCase().split(/\s+/).filter(Boolean);
const has=(t,w)=>w.every(one=>t.includes(one));
const natural=new Intl.Collator('en',{numeric:true}).compare;

function chosen(){
 const q=words(f.q.value),t=f.trait.value,cut=t.indexOf(' '),ti=+t.slice(0,cut),tv=t.slice(cut+1);
 let rows=[];
 for(let i=0;i<N.length;i++){
  const n=N[i];
  if(f.decision.value&&D.decisions[n[1]]!==f.decision.value)continue;
  if(f.cls.value&&n[2]!==f.cls.value)continue;
  if(t&&n[4][ti]!==tv)continue;
  if(q.length&&!has(text[i],q))continue;
  rows.push(i);
 }
 const o=f.order.value;
 if(o==='n')rows.sort((a,b)=>natural(N[a][0],N[b][0]));
 else if(o[0]==='t'){const k=+o.slice(1);rows.sort((a,b)=>natural(N[a][4][k],N[b][4][k])||a-b);}
 else if(o[0]==='m'){const k=+o.slice(1),v=i=>C[i][k]<0?WORST:C[i][k];rows.sort((a,b)=>v(a)-v(b)||a-b);}
 return rows;
}
function cell(i,j,late){
 const k=C[i][j],n=N[i];
 if(k<0)return `<td class="c h0${late}"><span class="faint">?</span></td>`;
 const [outcome,short,long,level]=K[k];
 let inner=esc(short);
 if(short!==D.fine&&n[3]){
  const to=n[3]+(n[6][j]?'#'+n[6][j]:'');
  inner=`<a href="${esc(to)}" tabindex="-1" title="${esc(n[0]+', '+M[j][0]+': '+long)}">${inner}</a>`;
 }
 return `<td class="c h${level} ${outcome}${late}">${inner}</td>`;
}
const part=()=>columns.slice(wide*D.wide,(wide+1)*D.wide);
function head(){
 let out='<tr><th scope="col">node</th><th scope="col">decision</th>';
 for(let k=0;k<D.columns;k++)out+=`<th scope="col" class="t">${esc(D.traits[k])}</th>`;
 part().forEach((j,at)=>{
  const name=esc(M[j][0]),by=f.order.value==='m'+j;
  const linked=M[j][2]?`<a href="${esc(M[j][2])}">${name}</a>`:name;
  out+=`<th scope="col" class="m${at>=D.printed?' late':''}"${by?' aria-sort="ascending"':''} `+
  `title="${esc(M[j][1])}"><div>${linked}</div><button type="button" tabindex="-1" data-m="${j}" `+
  `aria-label="worst by ${name} first">`+
  `${by?'\u25bc':'\u25bd'}</button></th>`;
 });
 table.tHead.innerHTML=out+'</tr>';
}
function rows(){
 const last=Math.max(0,Math.ceil(shown.length/D.rows)-1);
 page=Math.min(Math.max(0,page),last);
 const from=page*D.rows,some=part();
 body.innerHTML=shown.slice(from,from+D.rows).map(i=>{
  const n=N[i],d=D.decisions[n[1]];
  const name=n[3]?`<a href="${esc(n[3])}">${esc(n[0])}</a>`:esc(n[0]);
  let out=`<tr><th scope="row">${name}</th><td><span class="verdict ${d}">${d}</span>`+
  `${n[7]?` <span class="mark">${esc(n[7])}</span>`:''}</td>`;
  for(let k=0;k<D.columns;k++)out+=`<td class="t">${esc(n[4][k])}</td>`;
  some.forEach((j,at)=>{out+=cell(i,j,at>=D.printed?' late':'');});
  return out+'</tr>';
 }).join('');
 const all=shown.length===N.length?'':` found (of ${N.length})`;
 const to=Math.min(shown.length,from+D.rows),at=wide*D.wide;
 const less=columns.length===M.length?'':` found (of ${M.length})`;
 told.textContent=shown.length?`nodes ${from+1} to ${to} of ${shown.length}${all}, metrics `+
 `${some.length?at+1:0} to ${at+some.length} of ${columns.length}${less}`:
 'no node is like this; "show all" takes the filters away';
 buttons();
}
function buttons(){
 byId('before').disabled=page===0;byId('after').disabled=(page+1)*D.rows>=shown.length;
 byId('left').disabled=wide===0;byId('right').disabled=(wide+1)*D.wide>=columns.length;
}
function update(){
 const began=performance.now(),m=words(f.m.value);
 page=wide=0;shown=chosen();
 columns=M.map((_,j)=>j).filter(j=>has(metricText[j],m));
 head();rows();
 table.dataset.took=(performance.now()-began).toFixed(1);
}
for(const one of Object.values(f))one.addEventListener('input',update);
byId('tools').querySelector('button').addEventListener('click',()=>setTimeout(update));
byId('tools').addEventListener('submit',e=>e.preventDefault());
byId('before').addEventListener('click',()=>{page--;rows();});
byId('after').addEventListener('click',()=>{page++;rows();});
byId('left').addEventListener('click',()=>{wide--;head();rows();});
byId('right').addEventListener('click',()=>{wide++;head();rows();});
const nodeAt=td=>N[shown[page*D.rows+td.parentNode.sectionRowIndex]];
const lead=td=>{const n=nodeAt(td);if(n&&n[3])location.href=(td.querySelector('a')||{href:n[3]}).href;};
table.addEventListener('click',e=>{
 const by=e.target.closest('button[data-m]'),at=e.target.closest('td.c');
 if(by){f.order.value=f.order.value==='m'+by.dataset.m?'':'m'+by.dataset.m;update();
  const again=table.querySelector(`button[data-m="${by.dataset.m}"]`);if(again)again.focus();}
 else if(at&&!e.target.closest('a')&&!String(getSelection()))lead(at);
});
table.addEventListener('keydown',e=>{
 const step={ArrowLeft:[0,-1],ArrowRight:[0,1],ArrowUp:[-1,0],ArrowDown:[1,0]}[e.key];
 const at=e.target.closest('tbody td,tbody th');
 if(!at)return;
 if(e.key==='Enter'&&e.target===at){lead(at);return;}
 if(!step)return;
 const row=table.rows[at.parentNode.rowIndex+step[0]];
 const next=row&&row.parentNode===body&&row.cells[at.cellIndex+step[1]];
 if(!next)return;
 e.preventDefault();
 const to=next.querySelector('a')||next;
 if(to===next)next.tabIndex=-1;
 to.focus();next.scrollIntoView({block:'nearest',inline:'nearest'});
});
const strip=byId('strip');
const under=e=>N[D.strip[Math.min(N.length-1,Math.max(0,Math.floor(e.offsetX/strip.clientWidth*N.length)))]];
if(strip){
 strip.addEventListener('mousemove',e=>{const n=under(e);strip.title=n[0]+' '+n[4].join(' ');});
 strip.addEventListener('click',e=>{f.q.form.reset();f.q.value=under(e)[0];update();table.scrollIntoView();});
}
function goto(){
 const [name,rest]=location.hash.slice(1).split('?'),to=name&&byId(name);
 if(to&&to.tagName==='DETAILS')to.open=true;
 if(name!=='map'||rest===undefined)return;
 const p=new URLSearchParams(rest);
 byId('tools').reset();
 for(const key of Object.keys(f))if(p.has(key))f[key].value=p.get(key);
 update();byId('map').tabIndex=-1;byId('map').focus();
}
addEventListener('hashchange',goto);
for(const sorted of document.querySelectorAll('table.sortable')){
 const heads=[...sorted.tHead.rows[0].cells],part=sorted.tBodies[0];
 heads.forEach((th,k)=>{
  if(!th.textContent)return;
  const button=document.createElement('button');button.type='button';
  button.append(...th.childNodes);th.append(button);
  button.addEventListener('click',()=>{
   const down=th.getAttribute('aria-sort')==='ascending';
   heads.forEach(one=>one.removeAttribute('aria-sort'));
   th.setAttribute('aria-sort',down?'descending':'ascending');
   const value=tr=>{const c=tr.cells[k];return c.dataset.v===undefined?c.textContent:+c.dataset.v;};
   const list=[...part.rows].sort((a,b)=>{const x=value(a),y=value(b);
    return typeof x==='number'&&typeof y==='number'?x-y:natural(x,y);});
   part.append(...(down?list.reverse():list));
  });
 });
}
for(const one of document.querySelectorAll('.script'))one.hidden=false;
f.q.form.reset();buttons();goto();
document.documentElement.dataset.ready=performance.now().toFixed(1);
})();
