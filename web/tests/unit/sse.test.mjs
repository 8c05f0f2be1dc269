import assert from 'node:assert/strict';
import { test } from 'node:test';
import { event_data, read_events } from '../../src/sse.js';

const stream_of = (pieces) => new ReadableStream({
  start(controller) {
    for (const piece of pieces) controller.enqueue(piece);
    controller.close();
  },
});
const collect = async (pieces) => {
  const events = [];
  for await (const data of read_events(stream_of(pieces))) events.push(data);
  return events;
};
const TEXT = 'data: {"token":"你好"}\n\n: ping\n\ndata: 😄\r\n\r\ndata:no space\n\ndata: [DONE]\n\n';
const EXPECTED = ['{"token":"你好"}', '😄', 'no space', '[DONE]'];

test('events are the same however the bytes are cut', async () => {
  const bytes = new TextEncoder().encode(TEXT);
  assert.deepEqual(await collect([bytes]), EXPECTED);
  for (const size of [1, 2, 3, 7, 11]) {
    const pieces = [];
    for (let i = 0; i < bytes.length; i += size) pieces.push(bytes.slice(i, i + size));
    assert.deepEqual(await collect(pieces), EXPECTED, `pieces of ${size}`);
  }
});

test('the last event needs no empty line', async () => {
  assert.deepEqual(await collect([new TextEncoder().encode('data: a\n\ndata: b')]), ['a', 'b']);
  assert.deepEqual(await collect([]), []);
});

test('data lines are joined, other fields ignored', () => {
  assert.equal(event_data('event: x\nid: 1\ndata: a\ndata: b'), 'a\nb');
  assert.equal(event_data(': comment'), null);
  assert.equal(event_data('data:'), '');
});

test('leaving the loop cancels the stream', async () => {
  let cancelled = false;
  const body = new ReadableStream({
    pull(controller) { controller.enqueue(new TextEncoder().encode('data: x\n\n')); },
    cancel() { cancelled = true; },
  });
  for await (const data of read_events(body)) if (data === 'x') break;
  assert.ok(cancelled);
});
