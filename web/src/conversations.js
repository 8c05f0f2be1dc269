// Conversations and their place in the browser: munia.conversation.ID each. The list is made by
// reading the keys, so that several windows agree on it.
import { create_store, storage } from './store.js';

const PREFIX = 'munia.conversation.';
const TITLE_CHARS = 40;

const new_id = () =>
  `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

export function new_conversation() {
  return { id: new_id(), title: '', named: false, changed: Date.now(), messages: [] };
}

/** A conversation as read back, repaired; null where it is none. A reply that was being written when
 * the window closed counts as stopped. */
export function check_conversation(value) {
  if (value === null || typeof value !== 'object' || typeof value.id !== 'string') return null;
  if (!Array.isArray(value.messages)) return null;
  const messages = value.messages.filter((message) =>
    (message?.role === 'user' || message?.role === 'assistant') && typeof message.text === 'string');
  return {
    id: value.id,
    title: typeof value.title === 'string' ? value.title : '',
    named: value.named === true,
    changed: Number.isFinite(value.changed) ? value.changed : 0,
    messages: messages.map((message) => ({
      ...message,
      state: message.state === 'writing' ? 'stopped' : message.state,
      feeling: message.feeling?.state === 'reading' ? null : message.feeling,
    })),
  };
}

/** A title from the first message. */
export function title_of(text) {
  const line = text.trim().split(/\s*\n\s*/)[0];
  const chars = [...line];
  return chars.length > TITLE_CHARS ? `${chars.slice(0, TITLE_CHARS).join('')}…` : line;
}

export function list_conversations() {
  const found = [];
  for (let i = 0; i < storage.length; i += 1) {
    const key = storage.key(i);
    if (!key?.startsWith(PREFIX)) continue;
    try {
      const conversation = check_conversation(JSON.parse(storage.getItem(key)));
      if (conversation !== null) found.push(conversation);
    } catch {
      // not ours, or broken: left alone
    }
  }
  return found.sort((a, b) => b.changed - a.changed);
}

export const conversations = create_store(list_conversations());
/** The one that is shown; not in the list until it has a message. */
export const current = create_store(conversations.get()[0] ?? new_conversation());
export const storage_full = create_store(false);

const refresh = () => conversations.set(list_conversations());

function save(conversation) {
  try {
    storage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    storage_full.set(false);
  } catch {
    storage_full.set(true);
  }
  refresh();
}

/** Replaces a conversation by change(it): shown if it is the current one, kept unless `keep` is
 * false (while a reply grows). Does nothing where it was deleted in the meantime. */
export function update(id, change, { keep = true } = {}) {
  const shown = current.get();
  const old = shown.id === id ? shown : conversations.get().find((one) => one.id === id);
  if (old === undefined) return;
  const next = change(old);
  if (shown.id === id) current.set(next);
  else conversations.set((list) => list.map((one) => (one.id === id ? next : one)));
  if (keep && (next.messages.length > 0 || next.named)) save(next);
}

export function open_conversation(id) {
  const found = conversations.get().find((one) => one.id === id);
  if (found) current.set(found);
}

export function start_conversation() {
  if (current.get().messages.length > 0 || current.get().named) current.set(new_conversation());
}

export function rename_conversation(id, title) {
  const name = title.trim().slice(0, 100);
  update(id, (old) => ({ ...old, title: name, named: name !== '' }));
}

export function delete_conversation(id) {
  storage.removeItem(PREFIX + id);
  storage_full.set(false);
  refresh();
  if (current.get().id === id) current.set(conversations.get()[0] ?? new_conversation());
}

globalThis.addEventListener?.('storage', (event) => {
  if (event.key === null || event.key.startsWith(PREFIX)) refresh();
});
