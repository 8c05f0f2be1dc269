// Server-sent events from a fetch body. Text in, the data of each event out; pieces may be cut
// anywhere, also inside a character.

/** Yields the `data` of every event of a stream of bytes; ends with the stream. */
export async function* read_events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = done ? '' : blocks.pop();
      for (const block of blocks) {
        const data = event_data(block);
        if (data !== null) yield data;
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The joined data lines of one event, or null (a comment, or an event without data). */
export function event_data(block) {
  const lines = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith('data:')) lines.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
  return lines.length > 0 ? lines.join('\n') : null;
}
