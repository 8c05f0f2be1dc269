"""Horizontal bars as an SVG that can be read on light and on dark pages: no background, and colours
that follow prefers-color-scheme."""

from html import escape

ROW, BAR, TOP, LEFT, RIGHT, WIDTH = 22, 14, 34, 250, 90, 760
STYLE = """text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}
.m{fill:#0a7f5a}.p{fill:#8c959f}.e{stroke:#24292f;stroke-width:1.2}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#2fbf8f}.p{fill:#6e7681}.e{stroke:#e6edf3}}"""


def number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(title, rows):
    """rows: (label, median, low, high, is_ours), drawn in this order."""
    top = max(high for _, _, _, high, _ in rows) or 1
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + ROW * len(rows) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
           f'height="{height}" role="img" aria-label="{escape(title)}">', f"<style>{STYLE}</style>",
           f'<text class="t" x="8" y="20">{escape(title)}</text>']
    for i, (label, median, low, high, is_ours) in enumerate(rows):
        y = TOP + ROW * i
        middle = y + BAR / 2
        end = LEFT + max(median * scale, 1)
        out.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
        out.append(f'<rect class="{"m" if is_ours else "p"}" x="{LEFT}" y="{y}" '
                   f'width="{end - LEFT:.1f}" height="{BAR}" rx="2"/>')
        if high > low:
            out.append(f'<line class="e" x1="{LEFT + low * scale:.1f}" x2="{LEFT + high * scale:.1f}" '
                       f'y1="{middle}" y2="{middle}"/>')
        x = max(end, LEFT + high * scale) + 6
        out.append(f'<text x="{x:.1f}" y="{y + 12}">{number(median)}</text>')
    return "\n".join([*out, "</svg>", ""])
