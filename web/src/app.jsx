// The frame: header, tabs, language. All three panels stay alive, so that a reply or a batch goes on
// while another tab is shown.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Batch } from './batch.jsx';
import { Chat } from './chat.jsx';
import { language, use_t } from './i18n.js';
import { Monitor } from './monitor.jsx';
import bird from './munia.svg';

const TABS = ['chat', 'batch', 'monitor'];
const tab_of_address = () => {
  const name = location.hash.slice(1);
  return TABS.includes(name) ? name : 'chat';
};

export function App() {
  const t = use_t();
  const [tab, set_tab] = useState(tab_of_address);
  const tab_refs = useRef({});

  useEffect(() => {
    const changed = () => set_tab(tab_of_address());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  useEffect(() => {
    // A file that misses its place must not replace the page.
    const keep = (event) => { if (event.dataTransfer?.types.includes('Files')) event.preventDefault(); };
    addEventListener('dragover', keep);
    addEventListener('drop', keep);
    return () => {
      removeEventListener('dragover', keep);
      removeEventListener('drop', keep);
    };
  }, []);
  useEffect(() => {
    document.documentElement.lang = t.lang === 'zh' ? 'zh-CN' : 'en';
    document.title = `${t(`tab_${tab}`)} · munia`;
  }, [t.lang, tab]);

  const choose = (name, focus) => {
    set_tab(name);
    history.replaceState(null, '', `#${name}`);
    if (focus) tab_refs.current[name]?.focus();
  };
  const on_tab_key = (event) => {
    const at = TABS.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(TABS[(to + TABS.length) % TABS.length], true);
  };

  return (
    <>
      <a class="skip" href={`#${tab}`} onClick={(event) => {
        event.preventDefault();
        document.getElementById(`panel-${tab}`).focus();
      }}>{t('skip')}</a>
      <header class="top">
        <h1 class="brand" title={t('app_description')}>
          <img src={bird} width="32" height="32" alt="" />
          <span>munia<small lang="zh-CN">文鸟</small></span>
        </h1>
        <div class="tabs" role="tablist" aria-label={t('tabs')} onKeyDown={on_tab_key}>
          {TABS.map((name) => (
            <button key={name} type="button" role="tab" id={`tab-${name}`} class="tab"
              aria-selected={tab === name} aria-controls={`panel-${name}`}
              tabIndex={tab === name ? 0 : -1} ref={(node) => { tab_refs.current[name] = node; }}
              onClick={() => choose(name)}>
              {t(`tab_${name}`)}
            </button>
          ))}
        </div>
        <button type="button" class="quiet language" aria-label={t('switch_language')}
          title={t('switch_language')} onClick={() => language.set(t.lang === 'zh' ? 'en' : 'zh')}>
          {t('language_short')}
        </button>
      </header>
      <main>
        {TABS.map((name) => {
          const Panel = { chat: Chat, batch: Batch, monitor: Monitor }[name];
          return (
            <section key={name} id={`panel-${name}`} class="panel" role="tabpanel" tabIndex={-1}
              aria-labelledby={`tab-${name}`} hidden={tab !== name}>
              <Panel active={tab === name} />
            </section>
          );
        })}
      </main>
    </>
  );
}
