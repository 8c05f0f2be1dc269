// Labels, statistics, settings and conversations: what is read back from a browser or a server may
// be anything.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { error_from } from '../../src/api.js';
import { history_of } from '../../src/chat_run.js';
import {
  check_conversation, conversations, current, delete_conversation, rename_conversation, start_conversation,
  title_of, update,
} from '../../src/conversations.js';
import { label_emoji, label_kind, percent, ranked } from '../../src/emotion.js';
import { check_settings, DEFAULTS } from '../../src/settings.js';
import { add_point, create_history, draw_values, read_stats } from '../../src/stats.js';

test('labels have a kind and an emoji', () => {
  assert.equal(label_emoji('正面'), '😄');
  assert.equal(label_emoji('Negative'), '😞');
  assert.equal(label_kind(' Neutral '), 'neutral');
  assert.equal(label_kind('constructor'), 'other');
  assert.deepEqual(ranked({ a: 0.1, b: 0.9 }), [['b', 0.9], ['a', 0.1]]);
});

test('probabilities never round to impossible or certain', () => {
  assert.deepEqual([0, 0.0004, 0.031, 0.5, 0.987, 0.9912, 0.99997, 1, undefined].map(percent),
    ['0%', '<0.1%', '3.1%', '50%', '99%', '99.1%', '>99.9%', '100%', '–']);
});

test('kept settings are repaired', () => {
  assert.deepEqual(check_settings(null), DEFAULTS);
  assert.deepEqual(check_settings({ stream: 'yes', max_tokens: -3, temperature: 9, system: 5 }),
    { ...DEFAULTS, max_tokens: 1, temperature: 2 });
  assert.equal(check_settings({ max_tokens: '12.6' }).max_tokens, 13);
});

test('rates are made from two answers', () => {
  const answer = (prefill_tokens, decode_tokens, cpu, at_s) => read_stats({
    engine: { prefill_tokens, decode_tokens }, cpu: { seconds: cpu }, requests: { running: 2, waiting: 1 },
    first_token_ms: { p50: 200, p95: 300 }, memory: { resident_bytes: 5 } }, at_s);
  const first = answer(80, 10, 1, 50);
  assert.ok(Number.isNaN(draw_values(null, first).decode));
  assert.equal(draw_values(null, first).running, 2);
  assert.deepEqual(draw_values(first, answer(140, 70, 4, 52)),
    { prefill: 30, decode: 30, cpu: 150, p50: 200, p95: 300, running: 2, waiting: 1, memory: 5 });
  assert.ok(Number.isNaN(draw_values(first, answer(0, 0, 0, 52)).decode), 'a server started again');
});

test('statistics may lack anything', () => {
  const { gauges, counts, about } = read_stats({ engine: { decode_tokens: 40 }, requests: null }, 0);
  assert.equal(counts.decode, 40);
  assert.ok(Number.isNaN(gauges.running) && Number.isNaN(counts.cpu));
  assert.equal(about.model, null);
  assert.ok(Number.isNaN(read_stats(null, 0).counts.prefill));
});

test('the history keeps the newest points; a gap is null', () => {
  let history = create_history(3);
  for (let i = 0; i < 5; i += 1) history = add_point(history, i, i === 3 ? null : { decode: i });
  assert.deepEqual(history.time, [2, 3, 4]);
  assert.deepEqual(history.columns.decode, [2, null, 4]);
  assert.deepEqual(history.columns.cpu, [null, null, null]);
});

test('errors are told apart', () => {
  const of = (status, error, headers) => error_from(status, { error }, new Headers(headers));
  assert.equal(of(400, { message: 'm', code: 'context_length_exceeded' }).kind, 'context');
  assert.equal(of(401, { message: 'm' }).kind, 'key');
  assert.equal(of(429, { message: 'm' }, { 'retry-after': '4' }).retry_after_s, 4);
  assert.equal(of(400, 'No input provided').message, 'No input provided');
  assert.equal(error_from(500, null).message, 'HTTP 500');
  assert.equal(error_from(0, { error: { message: 'late' } }).message, 'late');
});

test('the history for the API leaves failed replies out', () => {
  assert.deepEqual(history_of([{ role: 'user', text: 'a' }, { role: 'assistant', text: '' },
    { role: 'assistant', text: 'b' }]), [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }]);
});

test('conversations: start, name, change, delete', () => {
  const { id } = current.get();
  update(id, (old) => ({ ...old, title: 'one', messages: [{ id: 'm', role: 'user', text: 'hello' }] }));
  assert.equal(conversations.get().length, 1);
  start_conversation();
  assert.notEqual(current.get().id, id);
  assert.equal(conversations.get().length, 1, 'an empty one is not kept');
  rename_conversation(id, '  named  ');
  assert.equal(conversations.get()[0].title, 'named');
  delete_conversation(id);
  assert.equal(conversations.get().length, 0);
  update(id, (old) => ({ ...old, title: 'ghost' }));
  assert.equal(conversations.get().length, 0, 'a deleted one does not come back');
});

test('what was kept is repaired', () => {
  assert.equal(check_conversation('x'), null);
  assert.equal(check_conversation({ id: 'a' }), null);
  const read = check_conversation({ id: 'a', messages: [null, { role: 'system', text: 'x' },
    { role: 'user', text: 'q', feeling: { state: 'reading' } }, { role: 'assistant', text: 'r', state: 'writing' }] });
  assert.equal(read.messages.length, 2);
  assert.equal(read.messages[0].feeling, null);
  assert.equal(read.messages[1].state, 'stopped');
  assert.equal([...title_of(`${'长'.repeat(60)}\nmore`)].length, 41);
});
