// The monitor: asks /stats once a second while it is shown, and draws the last five minutes.
import { useEffect, useState } from 'preact/hooks';
import { get_stats } from './api.js';
import { Chart } from './chart.jsx';
import { describe_error, format_bytes, format_duration, use_t } from './i18n.js';
import { Icon } from './icons.jsx';
import { add_point, create_history, draw_values, read_stats } from './stats.js';

const EVERY_MS = 1000;
const round = (value) => (value >= 100 ? String(Math.round(value)) : String(Math.round(value * 10) / 10));
const format_ms = (value) => (value >= 1000 ? `${round(value / 1000)} s` : `${round(value)} ms`);
const format_percent = (value) => `${round(value)}%`;

const CHARTS = [
  { title: 'chart_rate', format: round, series: [
    { name: 'decode', label: 'chart_decode', colour: '--tone-1', fill: true },
    { name: 'prefill', label: 'chart_prefill', colour: '--tone-2' }] },
  { title: 'chart_first', format: format_ms, series: [
    { name: 'p50', label: 'chart_p50', colour: '--tone-1', fill: true },
    { name: 'p95', label: 'chart_p95', colour: '--tone-2' }] },
  { title: 'chart_requests', format: round, whole: true, series: [
    { name: 'running', label: 'chart_running', colour: '--tone-1', fill: true },
    { name: 'waiting', label: 'chart_waiting', colour: '--tone-2' }] },
  { title: 'chart_memory', format: format_bytes, series: [
    { name: 'memory', label: 'chart_resident', colour: '--tone-3', fill: true }] },
  { title: 'chart_cpu', format: format_percent, series: [
    { name: 'cpu', label: 'chart_cpu_used', colour: '--tone-3', fill: true }] },
];

export function Monitor({ active }) {
  const t = use_t();
  const [history, set_history] = useState(create_history);
  const [about, set_about] = useState(null);
  const [error, set_error] = useState(null);

  useEffect(() => {
    if (!active) return undefined;
    const controller = new AbortController();
    let timer = 0;
    let before = null;
    const ask = async () => {
      if (!document.hidden) {
        let point = null;
        try {
          const stats = read_stats(await get_stats(controller.signal), performance.now() / 1000);
          point = draw_values(before, stats);
          before = stats;
          set_about(stats.about);
          set_error(null);
        } catch (thrown) {
          if (controller.signal.aborted) return;
          before = null;
          set_error(thrown);
        }
        const now = Date.now() / 1000;
        set_history((old) => {
          // After a pause (another tab) the line is broken rather than drawn across.
          const gap = old.time.length > 0 && now - old.time.at(-1) > 5;
          return add_point(gap ? add_point(old, old.time.at(-1) + 1, null) : old, now, point);
        });
      }
      timer = setTimeout(ask, EVERY_MS);
    };
    ask();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [active]);

  const facts = about === null ? [] : [
    ['monitor_model', about.model], ['monitor_weights', about.weights], ['monitor_isa', about.isa],
    ['monitor_threads', about.threads], ['monitor_version', about.version],
    ['monitor_uptime', Number.isFinite(about.start_time)
      ? format_duration(t.lang, Date.now() / 1000 - about.start_time) : null],
    ['monitor_requests_total', Number.isFinite(about.total) ? about.total.toLocaleString(t.lang) : null],
  ].filter(([, value]) => value !== null && value !== '');
  return (
    <div class="page monitor" tabIndex={0} role="region" aria-label={t('monitor_title')}>
      <h2>{t('monitor_title')}</h2>
      <div class="notice" role="status">
        {error && (
          <p class="error"><Icon name="warn" />
            <span>{error.kind === 'offline' ? t('monitor_lost') : describe_error(t, error)}</span></p>
        )}
      </div>
      <dl class="card facts">
        {facts.length === 0 ? <div><dt>{t('monitor_waiting')}</dt><dd>–</dd></div>
          : facts.map(([name, value]) => <div key={name}><dt>{t(name)}</dt><dd>{value}</dd></div>)}
      </dl>
      <div class="charts">
        {CHARTS.map(({ title, format, series, whole }) => (
          <Chart key={title} title={t(title)} format={format} history={history} lang={t.lang} active={active} whole={whole}
            series={series.map((one) => ({ ...one, label: t(one.label) }))} />
        ))}
      </div>
      <p class="hint">{t('monitor_every')}</p>
    </div>
  );
}
