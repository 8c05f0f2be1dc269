// A turn of a conversation: two requests side by side, the feeling of the message (/predict) and the
// reply (/v1/chat/completions with the whole history). The server reads both in the same steps. One
// turn at a time; stop() ends both.
import { chat, feel, get_models, is_abort } from './api.js';
import { current, title_of, update } from './conversations.js';
import { settings } from './settings.js';
import { create_store } from './store.js';

/** The turn that runs: {conversation_id, stop} or null. */
export const running = create_store(null);

let message_number = 0;
const new_message = (role, text) => {
  message_number += 1;
  return { id: `${Date.now().toString(36)}-${message_number}`, role, text };
};

let model_id = null; // asked once; the server serves one model
async function ask_model(signal) {
  if (model_id === null) model_id = (await get_models(signal)).data?.[0]?.id ?? null;
  return model_id ?? undefined;
}

/** The history as the API takes it: finished and stopped replies, no failed ones. */
export function history_of(messages) {
  return messages
    .filter((message) => message.role === 'user' || message.text !== '')
    .map((message) => ({ role: message.role, content: message.text }));
}

const plain_error = (error) => ({
  kind: error?.kind ?? 'failed', message: String(error?.message ?? error),
  retry_after_s: error?.retry_after_s ?? null,
});

/** Sends a message; does nothing while a turn runs. */
export function send(text) {
  if (running.get() !== null || text.trim() === '') return;
  const conversation = current.get();
  const question = new_message('user', text.trim());
  update(conversation.id, (old) => ({
    ...old,
    title: old.title === '' ? title_of(question.text) : old.title,
    changed: Date.now(),
    messages: [...old.messages, question],
  }));
  run_turn(conversation.id, question);
}

/** Asks again for the reply to the last message. */
export function retry() {
  const conversation = current.get();
  if (running.get() !== null) return;
  const at = conversation.messages.findLastIndex((message) => message.role === 'user');
  if (at < 0) return;
  update(conversation.id, (old) => ({ ...old, messages: old.messages.slice(0, at + 1) }));
  run_turn(conversation.id, conversation.messages[at]);
}

async function run_turn(conversation_id, question) {
  const controller = new AbortController();
  const { signal } = controller;
  running.set({ conversation_id, stop: () => controller.abort() });

  const answer = { ...new_message('assistant', ''), state: 'writing' };
  const change_message = (id, change, keep) =>
    update(conversation_id, (old) => ({
      ...old,
      messages: old.messages.map((message) =>
        message.id === id ? { ...message, ...change } : message),
    }), { keep });
  const history = history_of(current.get().messages);
  update(conversation_id, (old) => ({ ...old, messages: [...old.messages, answer] }));

  await Promise.all([
    read_feeling(question, change_message, signal),
    write_reply(history, answer, change_message, signal),
  ]);
  running.set(null);
}

async function read_feeling(question, change_message, signal) {
  if (question.feeling?.state === 'read') return;
  change_message(question.id, { feeling: { state: 'reading' } }, false);
  try {
    const { emotion, probabilities } = await feel(question.text, signal);
    change_message(question.id, { feeling: { state: 'read', emotion, probabilities } });
  } catch (error) {
    const feeling = is_abort(error) ? null : { state: 'failed', error: plain_error(error) };
    change_message(question.id, { feeling });
  }
}

async function write_reply(history, answer, change_message, signal) {
  const started = performance.now();
  let text = '';
  let first_ms = null;
  let frame = 0;
  // Text is shown once a frame, however fast the pieces come.
  const show = () => {
    frame = 0;
    change_message(answer.id, { text }, false);
  };
  const on_text = (piece) => {
    first_ms ??= performance.now() - started;
    text += piece;
    if (frame === 0) frame = schedule_frame(show);
  };
  const figures = (usage) => ({
    first_ms, total_ms: performance.now() - started, tokens: usage?.completion_tokens ?? null,
    streamed: options.stream,
  });
  const options = { ...settings.get() };
  try {
    options.model = await ask_model(signal);
    const { finish_reason, usage } = await chat(history, options, on_text, signal);
    cancel_frame(frame);
    change_message(answer.id, { text, state: 'done', finish_reason, figures: figures(usage) });
  } catch (error) {
    cancel_frame(frame);
    if (is_abort(error)) change_message(answer.id, { text, state: 'stopped', figures: figures(null) });
    else change_message(answer.id, { text, state: 'failed', error: plain_error(error) });
  }
}

// A window in the background gets no frames: a timer keeps the text growing there.
function schedule_frame(show) {
  return globalThis.document?.hidden === false ? { frame: requestAnimationFrame(show) }
    : { timer: setTimeout(show, 200) };
}

function cancel_frame(pending) {
  if (pending === 0) return;
  if (pending.frame !== undefined) cancelAnimationFrame(pending.frame);
  else clearTimeout(pending.timer);
}
