// GET /stats as the charts want it (web/README.md names the fields that are read). The server counts;
// rates are made here from two answers. NaN stands for what is not known.

const number = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : NaN);

/** The series that are drawn, by name. */
export const SERIES = ['prefill', 'decode', 'p50', 'p95', 'running', 'waiting', 'memory', 'cpu'];

/** Numbers of one answer; `at_s` is a clock that only goes forward. */
export function read_stats(json, at_s) {
  const model = json?.model;
  return {
    at_s,
    counts: {
      prefill: number(json?.engine?.prefill_tokens),
      decode: number(json?.engine?.decode_tokens),
      cpu: number(json?.cpu?.seconds) * 100, // per cent of one processor
    },
    gauges: {
      p50: number(json?.first_token_ms?.p50),
      p95: number(json?.first_token_ms?.p95),
      running: number(json?.requests?.running),
      waiting: number(json?.requests?.waiting),
      memory: number(json?.memory?.resident_bytes),
    },
    about: {
      model: model?.name ?? null,
      weights: model?.dtype ?? null,
      isa: model?.isa ?? null,
      threads: model?.threads ?? null,
      version: json?.version ?? null,
      start_time: number(json?.start_time),
      total: number(json?.requests?.total),
    },
  };
}

/** What is drawn at `now`: its gauges, and the rates since `before` (null: none yet). A counter that
 * went back belongs to a server that was started again. */
export function draw_values(before, now) {
  const values = { ...now.gauges };
  for (const [name, count] of Object.entries(now.counts)) {
    const seconds = before === null ? 0 : now.at_s - before.at_s;
    const grown = before === null ? NaN : count - before.counts[name];
    values[name] = seconds > 0 && grown >= 0 ? grown / seconds : NaN;
  }
  return values;
}

/** Times and values of the newest points; null is a gap. */
export function create_history(capacity = 300) {
  return { capacity, time: [], columns: Object.fromEntries(SERIES.map((name) => [name, []])) };
}

/** A new history with one more point, `values` null for a gap. */
export function add_point(history, time, values) {
  const keep = (list, value) => [...list.slice(-(history.capacity - 1)), value];
  return {
    ...history,
    time: keep(history.time, time),
    columns: Object.fromEntries(SERIES.map((name) => {
      const value = values?.[name];
      return [name, keep(history.columns[name], Number.isFinite(value) ? value : null)];
    })),
  };
}
