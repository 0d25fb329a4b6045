{# What pytest-html leaves out for those who cannot see its page, and its environment last. Its template has no
hook for the order of its parts, and scripts make its rows anyway: this order is read aloud and printed. -#}
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
