// Text for people, and elements of the page. User data becomes text of elements, never markup.

// duration returns a time in µs with three digits, as the commands of gotach print it.
function duration(us) {
	const ns = Math.abs(us) * 1000, sign = us < 0 ? '-' : '', s = ns / 1e9;
	if (ns < 0.5) return '0';
	if (s >= 3.6e7) return sign + Math.round(s / 86400) + 'd';
	if (s >= 3.6e5) return sign + Math.round(s / 3600) + 'h';
	for (const [from, unit, size, rest, part] of [[3600, 'h', 3600, 'm', 60], [1000, 'm', 60, 's', 1]]) {
		if (s >= from) return sign + Math.floor(s / size) + unit + String(Math.floor(s % size / part)).padStart(2, '0') + rest;
	}
	for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
		if (ns >= size * 0.9995) return sign + digits(ns / size) + unit;
	}
	return sign + Math.round(ns) + 'ns';
}

const digits = (v) => v >= 99.95 ? Math.round(v).toLocaleString('en-US') : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);

function percent(part, whole) {
	if (!(whole > 0)) return '';
	const p = 100 * part / whole;
	return (p === 0 ? '0' : Math.abs(p) >= 99.95 ? p.toFixed(0) : Math.abs(p) >= 9.95 ? p.toFixed(1) : p.toFixed(2)) + ' %';
}

const nanos = (us) => String(Math.round(us * 1000));
const plural = (n, word) => n.toLocaleString('en-US') + ' ' + word + (n === 1 ? '' : 's');

// moment returns a time on the axis as text: since the start of its side.
function moment(us) {
	const side = sideAt(us);
	return (head.sides.length > 1 ? 'AB'[head.sides.indexOf(side)] + ' ' : '') + seconds(us - side.from_us);
}

function seconds(us) {
	const s = us / 1e6;
	if (Math.abs(s) < 60) return s.toFixed(s < 10 ? 3 : 2) + 's';
	const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, rest = (s % 60).toFixed(s < 600 ? 1 : 0).padStart(s < 600 ? 4 : 2, '0');
	return h ? `${h}:${String(m).padStart(2, '0')}:${rest}` : `${m}:${rest}`;
}

function sideAt(us) {
	let found = head.sides[0];
	for (const s of head.sides) if (us >= s.from_us) found = s;
	return found;
}

// el makes an element. Strings become text.
function el(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attributes || {})) {
		if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
		else if (k === 'class') e.className = v;
		else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? '' : v);
	}
	e.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
	return e;
}

// broken returns a name in pieces for el. It may be broken into lines after a dot or slash, before it is broken inside of a word.
const broken = (name) => name.split(/(?<=[./])/).flatMap((part, i) => i ? [el('wbr'), part] : part);

const byId = (id) => document.getElementById(id);

// put replaces the content of an element. A button that had the focus keeps it.
function put(parent, ...children) {
	const focus = parent.contains(document.activeElement) ? document.activeElement.dataset.key : null;
	parent.replaceChildren(...children.filter((c) => c !== null));
	if (focus) [...parent.querySelectorAll('[data-key]')].find((e) => e.dataset.key === focus)?.focus({preventScroll: true});
}

const baseName = (file) => file.slice(Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);
const place = (file, line) => file ? baseName(file) + (line ? ':' + line : '') : '';

// shortName leaves the folders of the package out: net/http.(*conn).serve becomes http.(*conn).serve.
function shortName(name) {
	const end = name.search(/[[(]/), path = end < 0 ? name : name.slice(0, end);
	return name.slice(path.lastIndexOf('/') + 1);
}

const colours = {};
const classColours = ['--running', '--nocore', '--runnable', '--syscall', '--io', '--lock', '--channel', '--sleep', '--other', '--runtime', '--idle', '--apart'];

// readColours reads the colours of the present theme.
function readColours() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ['--ground', '--panel', '--line', '--text', '--dim', '--accent', '--mark', '--less', '--more', '--same', '--heat1', '--heat2', '--heat3', ...classColours]) {
		colours[name] = style.getPropertyValue(name).trim();
	}
}

const classColour = (c) => colours[classColours[c]];

// ink returns black or white, whichever can be read better on a colour #rrggbb.
function ink(colour) {
	const n = parseInt(colour.slice(1), 16);
	const part = (v) => (v /= 255) <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	return 0.2126 * part(n >> 16) + 0.7152 * part(n >> 8 & 255) + 0.0722 * part(n & 255) > 0.18 ? '#000000' : '#ffffff';
}

// mix returns a colour between two: all of the first at 0, all of the second at 1.
function mix(a, b, share) {
	const x = parseInt(a.slice(1), 16), y = parseInt(b.slice(1), 16);
	const part = (shift) => Math.round((x >> shift & 255) * (1 - share) + (y >> shift & 255) * share);
	return '#' + [16, 8, 0].map((s) => part(s).toString(16).padStart(2, '0')).join('');
}

// fit makes a canvas as large as it is shown and returns what draws on it, in CSS pixels.
function fit(canvas, height) {
	const width = canvas.clientWidth, scale = devicePixelRatio || 1;
	if (height) canvas.style.height = height + 'px';
	const h = height || canvas.clientHeight;
	const w = Math.max(1, Math.round(width * scale)), real = Math.max(1, Math.round(h * scale));
	if (canvas.width !== w || canvas.height !== real) {
		canvas.width = w;
		canvas.height = real;
	}
	const g = canvas.getContext('2d');
	g.setTransform(scale, 0, 0, scale, 0, 0);
	g.clearRect(0, 0, width, h);
	return {g, width, height: h};
}

// tip shows text beside the pointer; null hides it.
function tip(lines, event, source) {
	const t = byId('tip');
	t.hidden = !lines;
	if (!lines) return;
	t.replaceChildren(...lines.map((line) => el('div', null, line)));
	if (source) t.append(el('pre', null, source));
	const r = t.getBoundingClientRect();
	t.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - r.width - 8)) + 'px';
	t.style.top = (event.clientY + 18 + r.height > innerHeight ? Math.max(4, event.clientY - r.height - 10) : event.clientY + 18) + 'px';
}
