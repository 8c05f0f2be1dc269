// GET /stats as the charts want it (web/README.md names the fields): numbers, NaN where the server
// does not give one, and the last five minutes in columns.

const number = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : NaN);

/** The series that are drawn, by name. */
export const SERIES = ['prefill', 'decode', 'p50', 'p95', 'running', 'waiting', 'memory', 'cpu'];

export function read_stats(json) {
  return {
    time: number(json?.time),
    values: {
      prefill: number(json?.tokens_per_s?.prefill),
      decode: number(json?.tokens_per_s?.decode),
      p50: number(json?.first_token_ms?.p50),
      p95: number(json?.first_token_ms?.p95),
      running: number(json?.requests?.running),
      waiting: number(json?.requests?.waiting),
      memory: number(json?.memory_bytes),
      cpu: number(json?.cpu_percent),
    },
    about: {
      model: json?.model ?? null,
      weights: json?.weights ?? null,
      isa: json?.isa ?? null,
      threads: json?.threads ?? null,
      version: json?.version ?? null,
      uptime_s: number(json?.uptime_s),
      total: number(json?.requests?.total),
    },
  };
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
