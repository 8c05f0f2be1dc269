// Labels many texts by POST /classify, piece by piece: equal texts are asked once, pieces grow until
// one takes about two seconds, a busy server is waited for, and a text that the server refuses is
// left out: the one that it names, else found by halving the piece. Knows nothing of the page.

const MAX_TEXTS = 256;
const MAX_CHARS = 100_000; // far below the server's 1 MiB, also in three-byte characters
const TARGET_MS = 2000;
const MAX_WAITS = 20; // in a row, of a busy server
const MAX_REFUSED = 5; // in a row, before anything was labelled: then it is not the texts

const is_abort = (error) => error?.name === 'AbortError';

export const wait = (ms, signal) => new Promise((resolve, reject) => {
  const abort = () => {
    clearTimeout(timer);
    reject(new DOMException('stopped', 'AbortError'));
  };
  const timer = setTimeout(() => {
    signal?.removeEventListener('abort', abort);
    resolve();
  }, ms);
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort, { once: true });
});

/** The places of each different text that has no result yet, in order: Map text -> [index, …]. */
export function open_texts(texts, results) {
  const open = new Map();
  texts.forEach((text, i) => {
    if (results[i] || text.trim() === '') return;
    const places = open.get(text);
    if (places === undefined) open.set(text, [i]);
    else places.push(i);
  });
  return open;
}

/**
 * Fills `results` (an array as long as `texts`): {label, confidence, probabilities}, {error} for a
 * refused text, or nothing for an empty one. Goes on where `results` has nothing.
 *   classify(texts, signal) asks the server; throws ApiError.
 *   on_progress({waiting_s}) is called after each piece and before each wait.
 * Throws what cannot be helped, AbortError among it; `results` keeps what is done.
 */
export async function run_batch({ texts, results, classify, on_progress, signal, pause = wait }) {
  const open = [...open_texts(texts, results)];
  let next = 0;
  let size = 4;
  let any_labelled = results.some((result) => result?.label !== undefined);
  let n_refused = 0;

  const set = (entry, result) => {
    for (const i of entry[1]) results[i] = result;
  };

  const ask = async (piece) => {
    for (let waits = 0; ; waits += 1) {
      try {
        return await classify(piece.map((entry) => entry[0]), signal);
      } catch (error) {
        const is_busy = error?.kind === 'busy' || error?.kind === 'unavailable';
        if (!is_busy || waits >= MAX_WAITS) throw error;
        const waiting_s = Math.min(60, Math.max(1, Math.ceil(error.retry_after_s ?? 2 ** Math.min(waits, 5))));
        on_progress({ waiting_s });
        await pause(waiting_s * 1000, signal);
      }
    }
  };

  const label = async (piece) => {
    try {
      const labelled = await ask(piece);
      piece.forEach((entry, i) => set(entry, labelled[i]));
      any_labelled = true;
    } catch (error) {
      const is_refused = error?.kind === 'refused' || error?.kind === 'context';
      if (is_abort(error) || !is_refused || ['labels', 'task'].includes(error.param)) throw error;
      const named = /^texts\[(\d+)\]$/.exec(error.param ?? '');
      const at = piece.length === 1 ? 0 : Number(named?.[1] ?? NaN);
      if (at < piece.length) {
        n_refused += 1;
        if (!any_labelled && n_refused >= MAX_REFUSED) throw error;
        set(piece[at], { error: error.message });
        const others = piece.filter((_, i) => i !== at);
        if (others.length > 0) await label(others);
      } else {
        const middle = piece.length >> 1;
        await label(piece.slice(0, middle));
        await label(piece.slice(middle));
        return;
      }
    }
    on_progress({ waiting_s: null });
  };

  while (next < open.length) {
    if (signal?.aborted) throw new DOMException('stopped', 'AbortError');
    const piece = [];
    for (let chars = 0; next < open.length && piece.length < size; next += 1) {
      chars += open[next][0].length;
      if (piece.length > 0 && chars > MAX_CHARS) break;
      piece.push(open[next]);
    }
    const started = performance.now();
    await label(piece);
    const ms = Math.max(1, performance.now() - started);
    const wanted = Math.round((piece.length * TARGET_MS) / ms);
    size = Math.max(1, Math.min(MAX_TEXTS, wanted, piece.length * 2));
  }
}

/** Labels with their numbers, the most frequent first: [["正面", 12], …]. */
export function count_labels(results) {
  const counts = new Map();
  for (const result of results) {
    if (result?.label !== undefined && result.label !== null) {
      counts.set(result.label, (counts.get(result.label) ?? 0) + 1);
    }
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

/** The input's columns, then label, confidence and p_<label>; a name that is taken gets munia_. */
export function result_table(header, rows, results) {
  const labels = [];
  for (const result of results) {
    for (const label of Object.keys(result?.probabilities ?? {})) {
      if (!labels.includes(label)) labels.push(label);
    }
  }
  const own = ['label', 'confidence', ...labels.map((label) => `p_${label}`)];
  const any_error = results.some((result) => result?.error);
  if (any_error) own.push('error');
  const names = own.map((name) => (header.includes(name) ? `munia_${name}` : name));
  const number = (p) => (Number.isFinite(p) ? String(Math.round(p * 1e6) / 1e6) : '');
  const table = [[...header, ...names]];
  rows.forEach((row, i) => {
    const result = results[i];
    const cells = header.map((_, c) => row[c] ?? '');
    cells.push(result?.label ?? '', number(result?.confidence));
    for (const label of labels) cells.push(number(result?.probabilities?.[label]));
    if (any_error) cells.push(result?.error ?? '');
    table.push(cells);
  });
  return table;
}

/** "a, b，c" -> ["a", "b", "c"], without repeats. */
export function split_labels(text) {
  return [...new Set(text.split(/[,，、;；\n]/).map((label) => label.trim()).filter(Boolean))];
}
