// The conversations kept in this browser: open, start, rename, delete. A column beside the chat, or
// a drawer where the window is narrow.
import { useEffect, useRef, useState } from 'preact/hooks';
import { running } from './chat_run.js';
import {
  conversations, current, delete_conversation, open_conversation, rename_conversation, start_conversation,
} from './conversations.js';
import { Confirm } from './dialog.jsx';
import { use_t } from './i18n.js';
import { Icon, IconButton } from './icons.jsx';
import { use_store } from './store.js';

function RenameForm({ conversation, on_done }) {
  const t = use_t();
  const field = useRef(null);
  useEffect(() => field.current.select(), []);
  const save = (event) => {
    event.preventDefault();
    rename_conversation(conversation.id, field.current.value);
    on_done();
  };
  return (
    <form class="rename" onSubmit={save}>
      <input ref={field} aria-label={t('conversation_name')} maxLength={100} value={conversation.title}
        onKeyDown={(event) => { if (event.key === 'Escape') { event.preventDefault(); on_done(); } }} />
      <button type="submit" class="quiet icon-button" aria-label={t('save')} title={t('save')}>
        <Icon name="check" />
      </button>
    </form>
  );
}

export function ConversationList({ on_choose }) {
  const t = use_t();
  const list = use_store(conversations);
  const shown = use_store(current);
  const run = use_store(running);
  const [renaming, set_renaming] = useState(null);
  const [deleting, set_deleting] = useState(null);
  const title = (one) => one.title || t('conversation_untitled');

  const remove = (one) => {
    if (run?.conversation_id === one.id) run.stop();
    delete_conversation(one.id);
  };
  return (
    <>
      <button type="button" class="wide" onClick={() => { start_conversation(); on_choose?.(); }}>
        <Icon name="plus" />{t('conversation_new')}
      </button>
      <ul class="conversations">
        {list.map((one) => (
          <li key={one.id} class={one.id === shown.id ? 'chosen' : ''}>
            {renaming === one.id ? (
              <RenameForm conversation={one} on_done={() => set_renaming(null)} />
            ) : (
              <>
                <button type="button" class="quiet open" aria-current={one.id === shown.id ? 'true' : undefined}
                  title={title(one)} onClick={() => { open_conversation(one.id); on_choose?.(); }}>
                  {title(one)}
                </button>
                <span class="options" role="group" aria-label={t('conversation_options', { title: title(one) })}>
                  <IconButton icon="edit" label={t('conversation_rename')} onClick={() => set_renaming(one.id)} />
                  <IconButton icon="clear" label={t('conversation_delete')} onClick={() => set_deleting(one)} />
                </span>
              </>
            )}
          </li>
        ))}
      </ul>
      <p class="hint">{t('kept_here')}</p>
      {deleting && (
        <Confirm question={t('delete_question', { title: title(deleting) })} text={t('delete_text')}
          action={t('conversation_delete')} on_confirm={() => remove(deleting)}
          on_close={() => set_deleting(null)} />
      )}
    </>
  );
}
