// A modal <dialog>: focus stays inside, Escape and the backdrop close it, focus goes back after.
import { useEffect, useRef } from 'preact/hooks';
import { use_t } from './i18n.js';
import { IconButton } from './icons.jsx';

export function Dialog({ title, on_close, class: extra = '', children }) {
  const t = use_t();
  const dialog = useRef(null);
  useEffect(() => {
    const node = dialog.current;
    const opener = document.activeElement;
    node.showModal();
    return () => {
      node.close();
      if (opener?.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class={`dialog ${extra}`} aria-labelledby="dialog-title"
      onCancel={(event) => { event.preventDefault(); on_close(); }}
      onMouseDown={(event) => { if (event.target === dialog.current) on_close(); }}>
      <div class="dialog-body">
        <div class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <IconButton icon="close" label={t('close')} onClick={on_close} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

export function Confirm({ question, text, action, on_confirm, on_close }) {
  const t = use_t();
  return (
    <Dialog title={question} on_close={on_close} class="small">
      {text && <p class="hint">{text}</p>}
      <div class="actions">
        <button type="button" onClick={on_close}>{t('cancel')}</button>
        <button type="button" class="danger" onClick={() => { on_close(); on_confirm(); }}>{action}</button>
      </div>
    </Dialog>
  );
}
