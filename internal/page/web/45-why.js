// The findings: what is wrong with the program, in sentences, as gotach why says it. A click selects what a finding is about: its time,
// its goroutines, its function and the table that has more.

const why = {
	most: 5, all: false,
	// tables are where there is more about a kind, if its command does not say it.
	tables: {leak: 'leaks', cpu: 'functions', quota: 'functions', others: 'functions', gc: 'functions', serial: 'functions', compute: 'functions', lock: 'locks', channel: 'locks', chatty: 'requests'},
	range: null, // the findings are of this time

	// list returns the findings: those of the selected range where a server finds them. A finding that is chosen may select a range itself.
	list() {
		if (head.sides.length > 1) return {list: []};
		if (findings.whole) return {list: findings.whole.sides[0].why || []};
		if (S.finding < 0) this.range = S.second ? null : S.range;
		const k = findings.ask('why', this.range);
		return {list: k.sides ? k.sides[0].why || [] : null, note: k.note};
	},

	// about returns what a finding is about, as settings.
	about(x) {
		const out = {selected: -1, group: -1, goroutine: -1, lock: -1, range: this.range, second: null, zoom: [], view: null, weight: 'wall', idle: x.kind === 'idle', apart: x.kind === 'leak'};
		out.tab = /^gotach (locks|leaks|requests) /.exec(x.command)?.[1] || this.tables[x.kind] || 'blocked';
		if (out.tab === 'functions') out.weight = 'cpu';
		if (out.tab === 'locks') out.lock = (findings.of('locks').sides[0]?.locks.locks || []).findIndex((l) => l.sites.some((s) => s.func === x.function));
		const [from, end] = this.range || [0, D.end];
		const since = x.since_us + from, until = x.until_us ? x.until_us + from : end;
		if ((x.since_us > 0 || x.until_us) && since < D.end) out.range = strip.atSteps(since, until);
		if (!x.function) return out;
		const fn = D.fnName.findIndex((s, f) => D.strings[s] === x.function && (!x.file || fnFile(f) === x.file));
		if (fn < 0) return out;
		out.selected = fn;
		const time = new Float64Array(D.groups.length), under = new Uint8Array(D.caller.length);
		for (let n = 1; n < under.length; n++) under[n] = D.fn[n] === fn || under[D.caller[n]] ? 1 : 0;
		let all = 0;
		for (let r = 0; r < D.recNode.length; r++) {
			if (!under[D.recNode[r]]) continue;
			const v = recordTime(r, 0, D.steps);
			time[D.recGroup[r]] += v;
			all += v;
		}
		const best = time.reduce((b, v, g) => v > time[b] ? g : b, 0);
		if (all && time[best] > 0.9 * all) out.group = best;
		return out;
	},

	choose(i) {
		const {list} = this.list();
		if (i < 0 || !list || !list[i] || S.finding === i) return change({finding: -1, selected: -1, group: -1, lock: -1, range: this.range, zoom: [], weight: 'wall', idle: false, apart: false});
		byId('facts').open ||= list[i].kind === 'profile';
		change({...this.about(list[i]), finding: i});
	},

	// said says what is selected of a finding.
	said() {
		const parts = [];
		if (S.range) parts.push(`the time from ${moment(S.range[0])} to ${moment(S.range[1])}`);
		if (S.group >= 0) parts.push(`goroutines of ${groupName(S.group)}`);
		if (S.selected >= 0) parts.push(`callers and callees of ${fnName(S.selected)}`);
		if (S.weight === 'cpu') parts.push('CPU time');
		if (S.idle) parts.push('idle time too');
		if (S.apart) parts.push('what is set apart too');
		parts.push(`the table “${tables.names.find(([id]) => id === S.tab)[1]}”`);
		return `Selected: ${parts.join(', ')}. Another click, or Escape, takes it back.`;
	},

	draw() {
		const {list, note} = this.list(), problems = (list || []).filter((x) => !x.note);
		byId('why-section').hidden = head.sides.length > 1;
		const shown = this.all ? list : (list || []).slice(0, this.most);
		put(byId('why'), ...(shown || []).map((x, i) => {
			const chosen = S.finding === i;
			const button = el('button', {'aria-pressed': String(chosen), 'data-key': 'why' + i, title: 'select what this is about', onclick: () => this.choose(i)},
				el('b', null, x.kind), x.text, ' ', el('span', {class: 'same'}, x.note ? '(no fault)' : `(${x.sure})`));
			return el('li', null, button, chosen && el('div', {class: 'more-of'}, el('div', {role: 'status'}, this.said()), ...(x.evidence || []).map((e) => el('div', null, e)), x.command && el('code', null, x.command)));
		}));
		const more = (list || []).length - (shown || []).length;
		// There is always a line, so what is below does not move while a range is selected.
		const of = this.range ? `In the selected range, ${duration(this.range[1] - this.range[0])}` : S.range && S.finding < 0 ? 'In the whole profile' : '';
		put(byId('why-note'), list === null ? note || 'Looking for what is wrong …' : problems.length ? `${of || 'In the whole profile'}. ` : of ? `${of} nothing stands out. ` : 'Nothing stands out.',
			more > 0 ? el('button', {class: 'plain', 'data-key': 'whyall', onclick: () => { this.all = true; nudge('why'); }}, `${plural(more, 'more finding')}`) : null);
	},
};
