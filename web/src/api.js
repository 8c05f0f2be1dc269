// Talks to munia's server, by addresses relative to the page. Failures become one ApiError, which
// i18n turns into one sentence.
import { read_events } from './sse.js';
import { api_key } from './settings.js';

export class ApiError extends Error {
  /** kind: offline | cut | key | busy | unavailable | context | refused | failed */
  constructor(kind, message, { status = 0, param = null, retry_after_s = null } = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.param = param;
    this.retry_after_s = retry_after_s;
  }
}

/** An ApiError from a reply that is no success, or from an error event (status 0). */
export function error_from(status, body, headers = new Headers()) {
  const error = body?.error;
  const message = (typeof error === 'string' ? error : error?.message) || `HTTP ${status}`;
  const seconds = parseFloat(headers.get('retry-after'));
  const details = {
    status,
    param: error?.param ?? null,
    retry_after_s: Number.isFinite(seconds) ? seconds : null,
  };
  let kind = 'failed';
  if (error?.code === 'context_length_exceeded') kind = 'context';
  else if (status === 401) kind = 'key';
  else if (status === 429) kind = 'busy';
  else if (status === 503 || status === 502 || status === 504) kind = 'unavailable';
  else if (status >= 400 && status < 500) kind = 'refused';
  return new ApiError(kind, message, details);
}

export const is_abort = (error) => error?.name === 'AbortError';

async function request(path, { body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (api_key.get()) headers.authorization = `Bearer ${api_key.get()}`;
  let reply;
  try {
    reply = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: 'no-store',
    });
  } catch (error) {
    if (is_abort(error)) throw error;
    throw new ApiError('offline', String(error.message));
  }
  if (!reply.ok) throw error_from(reply.status, await reply.json().catch(() => null), reply.headers);
  return reply;
}

async function request_json(path, options) {
  const reply = await request(path, options);
  try {
    return await reply.json();
  } catch (error) {
    if (is_abort(error)) throw error;
    throw new ApiError('cut', String(error.message));
  }
}

export const get_stats = (signal) => request_json('stats', { signal });
export const get_models = (signal) => request_json('v1/models', { signal });

/** {emotion, probabilities} of a text, without a reply. */
export const feel = (text, signal) =>
  request_json('predict', { body: { text, reply: false }, signal });

/** [{label, confidence, probabilities}, …] for texts; `what` is {task} or {labels}. */
export async function classify(texts, what, signal) {
  const reply = await request_json('classify', { body: { texts, ...what }, signal });
  const results = Array.isArray(reply) ? reply : reply?.results ?? reply?.data;
  if (!Array.isArray(results) || results.length !== texts.length) {
    throw new ApiError('failed', 'the reply does not hold one label for each text');
  }
  return results;
}

/** A reply to `messages`. on_text(piece) is called as it grows; returns {finish_reason, usage}. */
export async function chat(messages, options, on_text, signal) {
  const { stream, system, max_tokens, temperature, repetition_penalty, model } = options;
  const body = {
    model,
    messages: system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages],
    max_tokens,
    temperature,
    repetition_penalty,
    stream,
  };
  if (!stream) {
    const reply = await request_json('v1/chat/completions', { body, signal });
    const choice = reply.choices?.[0];
    on_text(choice?.message?.content ?? '');
    return { finish_reason: choice?.finish_reason ?? 'stop', usage: reply.usage ?? null };
  }
  body.stream_options = { include_usage: true };
  const reply = await request('v1/chat/completions', { body, signal });
  const result = { finish_reason: null, usage: null };
  try {
    for await (const data of read_events(reply.body)) {
      if (data.startsWith('[DONE]')) break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw error_from(0, chunk);
      const choice = chunk.choices?.[0];
      if (choice?.delta?.content) on_text(choice.delta.content);
      result.finish_reason = choice?.finish_reason ?? result.finish_reason;
      result.usage = chunk.usage ?? result.usage;
    }
  } catch (error) {
    if (is_abort(error) || error instanceof ApiError) throw error;
    throw new ApiError('cut', String(error.message));
  }
  if (result.finish_reason === null) throw new ApiError('cut', 'the stream ended early');
  return result;
}
