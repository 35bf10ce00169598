// What the user chose. All of it is in the address of the page, so that a view can be sent to others.

const defaults = () => ({
	range: null, // [from, to] in µs, at steps; null is all
	second: null, // the range to compare with
	view: null, // the part of the time that is drawn
	weight: 'wall', colour: 'state', idle: false, apart: false, invert: false,
	graph: 'flame', // or 'tree', or 'time'
	zoom: [], // functions from the root of the flame graph
	selected: -1, // function whose callers are shown
	removed: [], // functions
	group: -1, // of goroutines
	query: '', keep: '', // searches: what is marked, and what alone is shown
	hidden: [], // classes that the strip leaves out
	tab: 'blocked', sort: 'self', theme: '',
	folded: [], // groups of goroutines
	goroutine: -1, lock: -1, at: -1, finding: -1, // at: the instant whose stacks are listed, in µs
	heat: false, heatKind: 'blocked', // the heat map is open, and what it shows
});

let S = defaults();

// names of the settings in the address
const short = {range: 'r', second: 'r2', view: 'v', weight: 'w', colour: 'c', idle: 'i', apart: 'ap', invert: 'n', graph: 'gv', zoom: 'z', selected: 's', removed: 'x', group: 'g', query: 'q', keep: 'k', hidden: 'h', tab: 't', sort: 'o', theme: 'm', folded: 'f', goroutine: 'gr', lock: 'l', at: 'at', finding: 'y', heat: 'hm', heatKind: 'hk'};

function toHash() {
	const parts = [], usual = start();
	for (const [name, key] of Object.entries(short)) {
		const v = S[name];
		if (JSON.stringify(v) === JSON.stringify(usual[name])) continue;
		const text = Array.isArray(v) ? v.join('.') : v === null ? '-' : v === true ? '1' : v === false ? '0' : String(v);
		parts.push(key + '=' + encodeURIComponent(text));
	}
	return parts.length ? '#' + parts.join('&') : '';
}

// fromHash returns the settings of an address. What does not fit the profile is left out.
function fromHash(hash) {
	const out = start();
	const given = new Map(hash.replace(/^#/, '').split('&').map((p) => {
		const i = p.indexOf('=');
		try {
			return [p.slice(0, i), decodeURIComponent(p.slice(i + 1))];
		} catch {
			return ['', ''];
		}
	}));
	const numbersOf = (text) => text.split('.').map(Number).filter((n) => Number.isInteger(n) && n >= 0);
	for (const [name, key] of Object.entries(short)) {
		if (!given.has(key)) continue;
		const text = given.get(key), usual = defaults()[name];
		if (name === 'range' || name === 'second' || name === 'view') {
			const n = numbersOf(text);
			out[name] = n.length === 2 && n[0] < n[1] && n[1] <= D.steps * D.width ? n : null;
		} else if (Array.isArray(usual)) out[name] = numbersOf(text);
		else if (typeof usual === 'number') out[name] = Number.isInteger(Number(text)) ? Number(text) : usual;
		else if (typeof usual === 'boolean') out[name] = text === '1';
		else out[name] = text;
	}
	const isFn = (fn) => fn < D.fnName.length;
	out.zoom = out.zoom.every(isFn) ? out.zoom : [];
	out.removed = out.removed.filter(isFn);
	if (!isFn(out.selected) || out.selected < -1) out.selected = -1;
	if (!(out.group < D.groups.length) || out.group < -1) out.group = -1;
	if (!['wall', 'cpu', 'latency'].includes(out.weight) || out.weight === 'latency' && head.no_latency) out.weight = 'wall';
	if (!flame.graphs.some(([id]) => id === out.graph)) out.graph = 'flame';
	if (!['state', 'package'].includes(out.colour)) out.colour = 'state';
	if (!(out.goroutine < G.gId.length) || out.goroutine < -1) out.goroutine = -1;
	if (out.at < -1 || out.at > D.end) out.at = -1;
	out.folded = out.folded.filter((g) => g < D.groups.length);
	if (!tables.names.some(([id]) => id === out.tab)) out.tab = 'blocked';
	if (!['', 'dark', 'light'].includes(out.theme)) out.theme = '';
	if (!heat.kinds.some(([kind]) => kind === out.heatKind)) out.heatKind = 'blocked';
	return out;
}

// start returns the settings of a page that was just opened: two profiles are compared, a long one has a heat map.
function start() {
	const s = defaults();
	s.heat = D.steps * D.width >= 6e7;
	if (head.sides.length > 1) {
		s.range = sideRange(0);
		s.second = sideRange(1);
	}
	return s;
}

function sideRange(i) {
	const s = head.sides[i], w = D.width;
	return [Math.floor(s.from_us / w) * w, Math.ceil(s.to_us / w) * w];
}

let known = ''; // the address that the settings are of
let changed = false; // since then

function readHash() {
	known = location.hash;
	S = fromHash(known);
	changed = false;
}

// change sets some of the settings and draws what depends on them. A new address of which the event has not come yet counts first.
function change(settings) {
	if (location.hash !== known) readHash();
	Object.assign(S, settings);
	changed = true;
	draw();
}

let credit = 10, credited = 0; // how many addresses may be written at once, and when this was so

// writeHash writes the settings to the address. Browsers allow some 100 new addresses in 30 s, so those of a long movement are
// left out: it returns false unless last is set.
function writeHash(last) {
	const hash = toHash(), now = performance.now();
	if (!changed || location.hash !== known) return true; // a new address is read when its event comes
	if (hash === location.hash) {
		changed = false;
		return true;
	}
	credit = Math.min(10, credit + (now - credited) / 400);
	credited = now;
	if (credit < 1 && !last) return false;
	credit--;
	try {
		history.replaceState(null, '', hash || location.pathname + location.search);
	} catch {
		// There were too many. The next one has these settings, too.
	}
	known = location.hash;
	changed = false;
	return true;
}
