// Markdown of the model, which nobody vouches for, to DOM nodes: marked makes HTML, DOMPurify keeps
// the few harmless elements. HTML in the text is shown as text; pictures become links, so that
// reading a reply never asks another host for anything.
import DOMPurify from 'dompurify';
import { Marked } from 'marked';

const escape_html = (text) =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escape_html(text),
    image: ({ href, text }) => `<a href="${escape_html(href)}">${escape_html(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ['p', 'br', 'hr', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li',
    'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'a'],
  ALLOWED_ATTR: ['href', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'A' && node.hasAttribute('href')) {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer nofollow');
  }
  // Wide code and tables scroll, by keyboard too.
  if (node.nodeName === 'PRE') node.setAttribute('tabindex', '0');
});

/** A DocumentFragment of harmless elements. */
export function render_markdown(text) {
  return DOMPurify.sanitize(marked.parse(text), ALLOWED);
}
