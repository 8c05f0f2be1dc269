// Line icons, drawn for this page on a 20 × 20 grid.
const PATHS = {
  menu: 'M3 5h14M3 10h14M3 15h14',
  plus: 'M10 4v12M4 10h12',
  settings: 'M3 6h7m4 0h3M3 14h3m4 0h7M12 4v4M8 12v4',
  clear: 'M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6M9 9v4M11 9v4',
  copy: 'M7 7h9v9H7zM13 7V4H4v9h3',
  check: 'M4 11l4 4 8-9',
  retry: 'M16 10a6 6 0 1 1-2-4.5M14 2v4h-4',
  send: 'M10 16V4M5 9l5-5 5 5',
  stop: 'M6 6h8v8H6z',
  down: 'M10 4v12M5 11l5 5 5-5',
  close: 'M5 5l10 10M15 5L5 15',
  edit: 'M4 16l1-4 8-8 3 3-8 8zM11 6l3 3',
  file: 'M5 3h7l3 3v11H5zM12 3v3h3',
  previous: 'M12 4l-6 6 6 6',
  next: 'M8 4l6 6-6 6',
  warn: 'M10 3l8 14H2zM10 8v4M10 14v1',
};

export const Icon = ({ name }) => (
  <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" fill="none"
    stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round">
    <path d={PATHS[name]} />
  </svg>
);

/** A button that shows an icon only; its name is spoken and shown as a hint. */
export const IconButton = ({ icon, label, class: extra = '', ...rest }) => (
  <button type="button" class={`quiet icon-button ${extra}`} aria-label={label} title={label} {...rest}>
    <Icon name={icon} />
  </button>
);
