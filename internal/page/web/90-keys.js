// Keys, and the controls at the top.

const keys = [
	['?', 'these keys', () => byId('help').showModal()],
	['/', 'search', () => byId('query').focus()],
	['n', 'next match', () => flame.nextMatch(1)],
	['N', 'previous match', () => flame.nextMatch(-1)],
	['o', 'only what the search finds; again: all', () => keep()],
	['i', 'invert the flame graph', () => change({invert: !S.invert, zoom: [], selected: -1})],
	['w', 'weight: wall, CPU or latency', () => byId('weight').dispatchEvent(new Event('step'))],
	['d', 'with or without idle time', () => change({idle: !S.idle})],
	['D', 'with or without what is set apart', () => change({apart: !S.apart})],
	['k', 'colour by state or by package', () => change({colour: S.colour === 'state' ? 'package' : 'state'})],
	['c', 'compare: the next range is the second one', () => setComparing(!comparing)],
	['t', 'dark or light', () => toggleTheme()],
	['a', 'go to the findings', () => document.querySelector('#why button')?.focus()],
	['s', 'go to the time strip', () => byId('strip').focus()],
	['h', 'show or hide the heat map', () => {
		change({heat: !S.heat});
		byId('heat-scroll').hidden = !S.heat; // what is hidden cannot have the focus
		byId(S.heat ? 'heat' : 'heat-open').focus({preventScroll: !S.heat});
	}],
	['f', 'go to the flame graph or the call tree', () => (S.graph === 'tree' ? tree.row() : byId('flame'))?.focus()],
	['v', 'flame graph, call tree, or one goroutine in the order of time', () => change({graph: flame.graphs[(flame.graphs.findIndex(([id]) => id === S.graph) + 1) % flame.graphs.length][0]})],
	['l', 'go to the goroutines', () => byId('lives').focus()],
	['g', 'fold or unfold all groups', () => goroutines.foldAll()],
	['[', 'previous table', () => nextTab(-1)],
	[']', 'next table', () => nextTab(1)],
	['r', 'reset: show everything', () => reset()],
	['Escape', 'take the last choice back', () => back()],
];

const localKeys = [
	['← →', 'time strip: move the range; Shift: move its end; Alt: the second range'],
	['+ −', 'time strip: zoom, as the wheel with Ctrl; PageUp and PageDown move; Enter: select what is drawn'],
	['Space', 'time strip: the stacks in the middle of the range'],
	['← → ↑ ↓', 'heat map: go from square to square; Shift: select a range; Enter: select this one'],
	['← → ↑ ↓', 'flame graph: go from box to box'],
	['Enter', 'flame graph: zoom; Backspace: zoom out; Home: all the way'],
	['← → ↑ ↓', 'goroutines: go from row to row, fold, unfold; Enter: only this one'],
	['← → ↑ ↓', 'call tree: go from row to row, fold, unfold; *: unfold where most time is; Enter: callers of the function'],
	['u', 'flame graph: callers above, callees below'],
	['x', 'flame graph: remove the function'],
];

// keep shows only what the search finds, or all again.
function keep() { change(S.query ? {keep: S.query, query: '', zoom: []} : {keep: ''}); }

function nextTab(step) {
	const list = tables.names.map(([id]) => id), i = list.indexOf(S.tab);
	change({tab: list[(i + step + list.length) % list.length]});
}

function reset() {
	setComparing(false);
	tables.shown = 100;
	const theme = S.theme;
	change({...start(), theme});
}

// back takes back one choice.
function back() {
	if (comparing) return setComparing(false);
	if (S.query) return change({query: ''});
	if (S.keep) return change({keep: ''});
	if (S.finding >= 0) return why.choose(-1);
	if (S.zoom.length) return change({zoom: []});
	if (S.selected >= 0) return change({selected: -1});
	if (S.lock >= 0) return change({lock: -1});
	if (S.at >= 0) return change({at: -1});
	if (S.group >= 0 || S.goroutine >= 0) return change({group: -1, goroutine: -1});
	if (S.removed.length) return change({removed: S.removed.slice(0, -1)});
	if (S.second) return change({second: null});
	if (S.range) return change({range: null});
	if (S.view) change({view: null});
}

function dark() { return S.theme ? S.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches; }

function toggleTheme() { change({theme: dark() ? 'light' : 'dark'}); }

const anyApart = () => head.sides.some((x) => x.apart);

const controls = {
	// apart says what is set apart, as gotach report does.
	apart() {
		const said = head.sides.flatMap((x, i) => x.apart ? [(head.sides.length > 1 ? 'AB'[i] + ' ' : '') + x.apart.map((a) => `${a.what} ${duration(a.wall_ns / 1000)}`).join(', ')] : []);
		return said.length ? 'set apart: ' + said.join(' · ') + (S.apart ? '' : '; the box “set apart” shows it') : '';
	},

	// describe shows what is known of the profiles as a whole.
	describe() {
		byId('title').textContent = head.title;
		const s = head.sides;
		byId('sums').textContent = s.map((x, i) => (s.length > 1 ? 'AB'[i] + ': ' : '') + `${duration(x.duration_ns / 1000)}, ` + (!x.samples ? 'no samples' : `${plural(x.goroutines, 'goroutine')}, ${duration(x.total_ns / 1000)} together, ${percent(x.cpu_ns, x.total_ns)} of it on CPU`)).join(' · ');
		byId('apart').parentElement.hidden = !anyApart();
		const facts = [];
		for (const x of s) {
			facts.push(el('dt', null, 'profile'), el('dd', null, x.name), el('dt', null, 'program'), el('dd', null, x.program || 'unknown'), el('dt', null, 'start'), el('dd', null, x.start.replace(/(\.\d{3})\d+/, '$1')), el('dt', null, 'samples'), el('dd', null, x.samples.toLocaleString('en-US')));
			for (const f of x.facts) facts.push(el('dt', null, f.name), el('dd', null, f.value));
		}
		byId('fact-list').replaceChildren(...facts);
		const note = byId('left-out');
		note.hidden = !head.left_out.length;
		note.textContent = 'To keep the page small: ' + head.left_out.join('; ') + '.';
		const latency = byId('weight').querySelector('[value=latency]');
		latency.disabled = !!head.no_latency;
		latency.title = head.no_latency ? 'this takes long for so large a profile; the page of a shorter range has it' : '';
	},

	start() {
		byId('weight').addEventListener('change', (e) => change({weight: e.target.value}));
		byId('weight').addEventListener('step', () => {
			const list = [...byId('weight').options].filter((o) => !o.disabled).map((o) => o.value);
			change({weight: list[(list.indexOf(S.weight) + 1) % list.length]});
		});
		byId('colour').addEventListener('change', (e) => change({colour: e.target.value}));
		byId('idle').addEventListener('change', (e) => change({idle: e.target.checked}));
		byId('apart').addEventListener('change', (e) => change({apart: e.target.checked}));
		byId('invert').addEventListener('change', (e) => change({invert: e.target.checked, zoom: [], selected: -1}));
		byId('query').addEventListener('input', (e) => {
			change({query: e.target.value});
			flame.focus = null;
			flame.nextMatch(1);
		});
		byId('query').addEventListener('keydown', (e) => {
			if (e.key === 'Enter') flame.nextMatch(e.shiftKey ? -1 : 1);
			else if (e.key === 'Escape') {
				change({query: ''});
				e.target.blur();
			} else return;
			e.preventDefault();
		});
		byId('previous').addEventListener('click', () => flame.nextMatch(-1));
		byId('next').addEventListener('click', () => flame.nextMatch(1));
		byId('keep').addEventListener('click', () => keep());
		byId('compare').addEventListener('click', () => setComparing(!comparing));
		byId('reset').addEventListener('click', reset);
		byId('theme').addEventListener('click', toggleTheme);
		byId('help-open').addEventListener('click', () => byId('help').showModal());
		for (const [id, list] of [['help-keys', keys], ['help-panels', localKeys]]) byId(id).replaceChildren(...list.map(([key, text]) => el('tr', null, el('td', null, el('kbd', null, key)), el('td', null, text))));
		addEventListener('keydown', (e) => {
			if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || byId('help').open || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== 'checkbox') return;
			const k = keys.find(([key]) => key === e.key);
			if (!k) return;
			e.preventDefault();
			k[2]();
		});
	},

	draw() {
		byId('weight').value = S.weight;
		byId('colour').value = S.colour;
		byId('idle').checked = S.idle;
		byId('apart').checked = S.apart;
		byId('apart-note').textContent = this.apart();
		byId('invert').checked = S.invert;
		if (byId('query').value !== S.query) byId('query').value = S.query;
		byId('keep').disabled = !S.query && !S.keep;
		const chip = (key, text, off) => el('span', {class: 'chip'}, text, el('button', {'data-key': 'chip' + key, 'aria-label': 'remove: ' + text, onclick: off}, '×'));
		const list = [];
		if (S.range) list.push(chip('range', `${S.second ? 'A: ' : ''}${moment(S.range[0])} – ${moment(S.range[1])}`, () => change({range: null, second: null})));
		if (S.second) list.push(chip('second', `B: ${moment(S.second[0])} – ${moment(S.second[1])}`, () => change({second: null})));
		if (S.at >= 0) list.push(chip('at', `stacks at ${moment(S.at)}`, () => change({at: -1})));
		if (S.group >= 0) list.push(chip('group', `goroutines of ${groupName(S.group)}`, () => change({group: -1})));
		if (S.goroutine >= 0) list.push(chip('goroutine', `goroutine ${G.gId[S.goroutine]}`, () => change({goroutine: -1})));
		if (S.keep) list.push(chip('keep', `only ${S.keep}`, () => change({keep: ''})));
		if (S.selected >= 0) list.push(chip('selected', `callers of ${fnName(S.selected)}`, () => change({selected: -1, zoom: []})));
		for (const fn of S.removed) list.push(chip('x' + fn, `without ${fnName(fn)}`, () => change({removed: S.removed.filter((r) => r !== fn)})));
		const chips = [...list, ...live.chips()];
		put(byId('chips'), ...chips, el('span', {class: 'hint'}, this.hint(chips.length > 0)));
	},

	// matched says how much of the time the search found.
	matched() {
		const share = S.query ? matchedShare(sums()[0]) : null;
		byId('matched').value = share === null ? '' : percent(share, 1) + ' matched';
	},

	// hint says what to do next, or first.
	hint(chosen) {
		if (comparing) return 'Drag over the time: that range is compared with the selected one.';
		if (refused && !S.range) return 'Select a range first: drag over the time.';
		return chosen ? '' : 'A click on the time lists the stacks of that instant, a drag selects a range. A click in the flame graph zooms. The key ? lists the rest.';
	},
};

const groupName = (group) => D.groups[group].split('\t').map((t, i) => i ? baseName(t) : t).join('  ');

function applyTheme() {
	const name = dark() ? 'dark' : 'light';
	if (document.documentElement.dataset.theme !== name || !colours['--ground']) {
		document.documentElement.dataset.theme = name;
		readColours();
	}
}
