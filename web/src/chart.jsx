// A line chart of uPlot with its newest values in words beside it, which is what a screen reader and
// a quick look need. Redrawn when the colours, the width or the data change.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import uPlot from 'uplot';

const HEIGHT = 150;
const dark = matchMedia('(prefers-color-scheme: dark)');

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function make_options(width, { series, format, lang, whole }) {
  const axis = { stroke: colour('--text-soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false },
    font: '11px system-ui, sans-serif' };
  const time = new Intl.DateTimeFormat(lang, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, low, high) => [0, Math.max(high === null ? 1 : high * 1.1, 1)] } },
    axes: [
      { ...axis, size: 24, space: 80, values: (_, ticks) => ticks.map((s) => time.format(s * 1000)) },
      { ...axis, size: 58, space: 32, ...(whole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }), values: (_, ticks) => ticks.map((value) => format(value)) },
    ],
    series: [{}, ...series.map(({ colour: name, fill }) => ({
      stroke: colour(name), width: 2, points: { show: false }, spanGaps: false,
      fill: fill ? colour(`${name}-soft`) : undefined,
    }))],
  };
}

/** `whole`: the values are counts. */
export function Chart({ title, series, history, format, lang, active, whole }) {
  const box = useRef(null);
  const plot = useRef(null);
  const data = useMemo(() => [history.time, ...series.map(({ name }) => history.columns[name])], [history]);
  const newest = useRef(data);
  newest.current = data;

  useEffect(() => {
    if (!active) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(make_options(box.current.clientWidth, { series, format, lang, whole }), newest.current, box.current);
    };
    draw();
    const observer = new ResizeObserver(() => {
      const width = box.current.clientWidth;
      if (width > 0 && width !== plot.current.width) plot.current.setSize({ width, height: HEIGHT });
    });
    observer.observe(box.current);
    dark.addEventListener('change', draw);
    return () => {
      observer.disconnect();
      dark.removeEventListener('change', draw);
      plot.current.destroy();
      plot.current = null;
    };
  }, [active, lang]);
  useEffect(() => { plot.current?.setData(data); }, [data]);

  const last = series.map(({ name }) => history.columns[name].at(-1) ?? NaN);
  return (
    <section class="card chart-card" aria-label={title}>
      <h3>{title}</h3>
      <dl class="values">
        {series.map(({ name, label, colour: tone }, i) => (
          <div key={name} class={`tone${tone}`}>
            <dt>{label}</dt>
            <dd class="number">{Number.isFinite(last[i]) ? format(last[i]) : '–'}</dd>
          </div>
        ))}
      </dl>
      <div class="plot" ref={box} aria-hidden="true" />
    </section>
  );
}
