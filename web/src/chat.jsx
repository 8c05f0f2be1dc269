// The chat: conversations at the side, messages, and the field to write in.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { retry, running, send } from './chat_run.js';
import { ConversationList } from './conversation_list.jsx';
import { current, start_conversation, storage_full, update } from './conversations.js';
import { Confirm, Dialog } from './dialog.jsx';
import { label_kind, percent } from './emotion.js';
import { label_gloss, use_t } from './i18n.js';
import { Icon, IconButton } from './icons.jsx';
import { Message } from './message.jsx';
import bird from './munia.svg';
import { settings } from './settings.js';
import { NumberField, SettingsDialog } from './settings_dialog.jsx';
import { use_store } from './store.js';

const NEAR_END_PX = 80;

function Composer({ busy, on_send, on_settings, on_clear, can_clear, draft_ref }) {
  const t = use_t();
  const [text, set_text] = useState('');
  const field = draft_ref;
  const options = use_store(settings);

  useLayoutEffect(() => {
    field.current.style.height = 'auto';
    field.current.style.height = `${Math.min(field.current.scrollHeight + 2, 220)}px`;
  }, [text]);

  const submit = (event) => {
    event?.preventDefault();
    if (busy || text.trim() === '') return;
    on_send(text);
    set_text('');
    field.current.focus();
  };
  const on_key = (event) => {
    // While an input method composes, Enter chooses a character and must not send.
    const composing = event.isComposing || event.keyCode === 229;
    if (event.key === 'Enter' && !event.shiftKey && !composing) submit(event);
  };
  return (
    <form class="composer" onSubmit={submit}>
      <div class="composer-box">
        <textarea ref={field} rows="1" aria-label={t('message_label')} aria-describedby="send-hint"
          placeholder={t('message_placeholder')} value={text} onKeyDown={on_key}
          onInput={(event) => set_text(event.currentTarget.value)} />
        {/* Two buttons, by their keys: were Stop to turn into Send under a click, it would send. */}
        {busy ? (
          <button key="stop" type="button" class="primary round" aria-label={t('stop')} title={t('stop')}
            onClick={() => { running.get()?.stop(); field.current.focus(); }}><Icon name="stop" /></button>
        ) : (
          <button key="send" type="submit" class="primary round" aria-label={t('send')} title={t('send')}
            aria-disabled={text.trim() === ''}><Icon name="send" /></button>
        )}
      </div>
      <div class="composer-options">
        <label class="switch">
          <input type="checkbox" role="switch" checked={options.stream}
            onChange={(event) => settings.set((old) => ({ ...old, stream: event.currentTarget.checked }))} />
          <span>{t('stream')}</span>
        </label>
        <label class="inline">{t('max_length')} <NumberField name="max_tokens" /></label>
        <span class="spacer hint" id="send-hint">{t('send_hint')}</span>
        <IconButton icon="clear" label={t('clear')} disabled={!can_clear} onClick={on_clear} />
        <IconButton icon="settings" label={t('settings')} onClick={on_settings} />
      </div>
    </form>
  );
}

function Empty({ on_send }) {
  const t = use_t();
  return (
    <div class="empty">
      <img src={bird} width="112" height="112" alt="" />
      <h2>{t('chat_empty_title')}</h2>
      <p>{t('chat_empty_text')}</p>
      <ul class="examples" aria-label={t('examples')}>
        {[1, 2, 3].map((i) => (
          <li key={i}><button type="button" onClick={() => on_send(t(`example_${i}`))}>{t(`example_${i}`)}</button></li>
        ))}
      </ul>
    </div>
  );
}

/** What a screen reader is told: the feeling and the reply, each once, when they are complete. */
function use_announcement(t, messages) {
  const [said, set_said] = useState('');
  const before = useRef(new Map());
  useEffect(() => {
    const now = new Map(messages.map((message) => [message.id, message]));
    for (const [id, message] of now) {
      const old = before.current.get(id);
      if (old === undefined) continue;
      if (old.state === 'writing' && message.state === 'done') set_said(message.text);
      if (old.feeling?.state === 'reading' && message.feeling?.state === 'read' && message.feeling.emotion) {
        const { emotion, probabilities } = message.feeling;
        const label = label_gloss(t.lang, label_kind(emotion), emotion) || emotion;
        set_said(t('feeling_is', { label, percent: percent(probabilities?.[emotion]) }));
      }
    }
    before.current = now;
  }, [messages]);
  return said;
}

export function Chat({ active }) {
  const t = use_t();
  const conversation = use_store(current);
  const run = use_store(running);
  const full = use_store(storage_full);
  const [open, set_open] = useState(null); // settings | clear | list
  const [at_end, set_at_end] = useState(true);
  const scroller = useRef(null);
  const draft = useRef(null);
  const stick = useRef(true);
  const { messages } = conversation;
  const busy = run !== null;
  const said = use_announcement(t, messages);

  // Follows the newest text unless the reader has scrolled up.
  useLayoutEffect(() => {
    if (stick.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [messages, active]);
  useLayoutEffect(() => { stick.current = true; set_at_end(true); }, [conversation.id]);
  // Ready to type, but not where that would open a keyboard over the page or leave the tabs.
  useEffect(() => {
    const on_tab = document.activeElement?.getAttribute('role') === 'tab';
    if (active && !on_tab && matchMedia('(hover: hover)').matches) draft.current.focus();
  }, [conversation.id]);
  const on_scroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current;
    stick.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    set_at_end(stick.current);
  };
  const on_send = (text) => {
    stick.current = true;
    send(text);
  };
  const clear = () => {
    if (run?.conversation_id === conversation.id) run.stop();
    update(conversation.id, (old) => ({ ...old, messages: [], title: old.named ? old.title : '' }));
    draft.current.focus();
  };

  return (
    <div class="chat">
      <nav class="side" aria-label={t('conversations')}><ConversationList /></nav>
      <div class="talk">
        <div class="talk-head">
          <IconButton icon="menu" label={t('conversations')} onClick={() => set_open('list')} />
          <span>{conversation.title || t('conversation_untitled')}</span>
          <IconButton icon="plus" label={t('conversation_new')} disabled={messages.length === 0}
            onClick={start_conversation} />
        </div>
        <div class="scroller" ref={scroller} onScroll={on_scroll} tabIndex={0} role="region" aria-label={t('messages')}>
          {messages.length === 0 ? <Empty on_send={on_send} /> : (
            <div class="messages">
              {messages.map((message, i) => (
                <Message key={message.id} message={message} is_last={!busy && i === messages.length - 1}
                  on_retry={retry} />
              ))}
            </div>
          )}
        </div>
        <div class="foot">
          {!at_end && messages.length > 0 && (
            <button type="button" class="to-end" aria-label={t('jump_down')} title={t('jump_down')} onClick={() => {
              stick.current = true;
              scroller.current.scrollTop = scroller.current.scrollHeight;
            }}><Icon name="down" /></button>
          )}
          {full && <p class="error" role="alert"><Icon name="warn" /><span>{t('storage_full')}</span></p>}
          <Composer busy={busy} on_send={on_send} draft_ref={draft} can_clear={messages.length > 0}
            on_settings={() => set_open('settings')} on_clear={() => set_open('clear')} />
        </div>
      </div>
      <p class="spoken" role="status">{said}</p>
      {open === 'settings' && <SettingsDialog on_close={() => set_open(null)} />}
      {open === 'list' && (
        <Dialog title={t('conversations')} class="drawer" on_close={() => set_open(null)}>
          <ConversationList on_choose={() => set_open(null)} />
        </Dialog>
      )}
      {open === 'clear' && (
        <Confirm question={t('clear_question', { title: conversation.title || t('conversation_untitled') })}
          text={t('delete_text')} action={t('clear')} on_confirm={clear} on_close={() => set_open(null)} />
      )}
    </div>
  );
}
