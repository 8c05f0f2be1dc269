// One message: text, feeling, figures, copy.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { label_emoji, label_kind, percent, ranked } from './emotion.js';
import { describe_error, label_gloss, use_t } from './i18n.js';
import { Icon, IconButton } from './icons.jsx';
import { render_markdown } from './markdown.js';

/** Copies, also where the page is not a secure context (http from another machine). */
async function copy_text(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

function CopyButton({ text }) {
  const t = use_t();
  const [copied, set_copied] = useState(false);
  const copy = async () => {
    if (!(await copy_text(text))) return;
    set_copied(true);
    setTimeout(() => set_copied(false), 1500);
  };
  return <IconButton icon={copied ? 'check' : 'copy'} label={copied ? t('copied') : t('copy')} onClick={copy} />;
}

function Markdown({ text }) {
  const box = useRef(null);
  useLayoutEffect(() => box.current.replaceChildren(render_markdown(text)), [text]);
  return <div class="markdown" ref={box} />;
}

/** The badge stands in a row of fixed height, so that nothing moves when it arrives. */
function Feeling({ feeling }) {
  const t = use_t();
  if (!feeling) return null;
  if (feeling.state === 'reading') return <span class="badge waiting">{t('feeling_reading')}</span>;
  if (feeling.state === 'failed') {
    return <span class="badge failed" title={describe_error(t, feeling.error)}>{t('feeling_missing')}</span>;
  }
  const { emotion, probabilities } = feeling;
  if (emotion === null || emotion === undefined) return <span class="badge">{t('feeling_none')}</span>;
  const kind = label_kind(emotion);
  const rows = ranked(probabilities);
  const gloss = label_gloss(t.lang, kind, emotion);
  const own = probabilities?.[emotion];
  return (
    <details class={`feeling kind-${kind}`}>
      <summary class="badge" aria-label={t('feeling_is', {
        label: gloss ? `${emotion} (${gloss})` : emotion, percent: percent(own),
      })}>
        <span class="emoji" aria-hidden="true">{label_emoji(emotion)}</span>
        <span>{emotion}</span>
        {gloss && <span class="gloss">{gloss}</span>}
        {own !== undefined && <strong>{percent(own)}</strong>}
      </summary>
      <ul class="probabilities" aria-label={t('probabilities')}>
        {rows.map(([label, p]) => (
          <li key={label} class={`kind-${label_kind(label)}`}>
            <span>{label}</span>
            <span class="track" aria-hidden="true"><span class="bar" style={{ width: `${p * 100}%` }} /></span>
            <span class="number">{percent(p)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Figures({ message }) {
  const t = use_t();
  const { figures, state, finish_reason } = message;
  const parts = [];
  if (state === 'stopped') parts.push(t('reply_stopped'));
  if (finish_reason === 'length') parts.push(t('reply_length'));
  if (figures) {
    const { tokens, first_ms, total_ms, streamed } = figures;
    if (tokens !== null) parts.push(t('tokens_n', { n: tokens }));
    if (streamed && first_ms !== null) parts.push(t('first_token', { s: (first_ms / 1000).toFixed(2) }));
    const writing_ms = streamed ? total_ms - first_ms : total_ms;
    if (tokens > 1 && writing_ms > 0) {
      parts.push(t('rate', { n: ((tokens - (streamed ? 1 : 0)) / (writing_ms / 1000)).toFixed(1) }));
    }
  }
  return <span class="figures">{parts.join(' · ')}</span>;
}

export function Message({ message, is_last, on_retry }) {
  const t = use_t();
  if (message.role === 'user') {
    return (
      <article class="message user" aria-label={t('you')}>
        <div class="bubble">{message.text}</div>
        <div class="under">
          <Feeling feeling={message.feeling} />
          <CopyButton text={message.text} />
        </div>
      </article>
    );
  }
  const writing = message.state === 'writing';
  return (
    <article class="message munia" aria-label={t('munia')} aria-busy={writing}>
      {message.text !== '' && <Markdown text={message.text} />}
      {writing && message.text === '' && (
        <p class="thinking"><span /><span /><span /><span class="spoken">{t('replying')}</span></p>
      )}
      {message.state === 'done' && message.text.trim() === '' && <p class="hint">{t('reply_empty')}</p>}
      {message.error && (
        <p class="error" role="alert"><Icon name="warn" /><span>{describe_error(t, message.error)}</span></p>
      )}
      <div class="under">
        {!writing && message.text !== '' && <CopyButton text={message.text} />}
        {!writing && is_last && (message.error
          ? <button type="button" class="small" onClick={on_retry}><Icon name="retry" />{t('retry')}</button>
          : <IconButton icon="retry" label={t('retry')} onClick={on_retry} />)}
        <Figures message={message} />
      </div>
    </article>
  );
}
