// A page that a server sent: the server says how far it is, sends the pieces, and says later if there is more.

const live = {
	status: null, // the latest one

	// address returns where the server has something. The page may be of a part of the time.
	address(name, generation, what = {}) {
		const q = new URLSearchParams({...Object.fromEntries(new URLSearchParams(location.search)), ...what});
		q.set('generation', String(generation));
		return `data/${name}?${q}`;
	},

	// ask asks for the status. generation is what the page has.
	async ask(generation) {
		const answer = await fetch(this.address('status', generation), {cache: 'no-store'});
		if (!answer.ok) throw new Error(await answer.text());
		const s = await answer.json();
		if (s.head) s.head.generation = s.generation;
		return this.status = s;
	},

	// first waits until the server has read the profile.
	async first() {
		for (;;) {
			const s = await this.ask(0);
			if (s.head) return s.head;
			if (s.error) throw new Error(s.error);
			byId('loading').textContent = `Reading the profile: ${s.progress} …`;
			await sleep(100);
		}
	},

	// load loads all data. A newer generation may take the place of one before all pieces are there.
	async load() {
		if (!head.live) return loadData(head);
		for (let tries = 1; ; tries++) {
			const next = await this.first();
			try {
				return await loadData(next);
			} catch (error) {
				if (tries === 5) throw error;
			}
		}
	},

	// watch asks for newer data while the page is seen.
	async watch() {
		if (!head.live) return;
		this.note([this.sketch(), this.status.note].filter(Boolean).join(' '));
		if (this.status.again) nudge('controls');
		for (;;) {
			await sleep(this.status.progress || head.sketch ? 500 : this.status.growing ? 2000 : 10000);
			if (document.hidden) continue;
			const again = !!this.status.again;
			try {
				const s = await this.ask(head.generation);
				if (s.head) await this.update(s.head);
				this.note(s.error ? 'The profile cannot be read any more: ' + s.error : [this.sketch(), s.note].filter(Boolean).join(' '));
				if (again !== !!s.again) nudge('controls');
			} catch (error) {
				this.note('The server does not answer any more. The page shows what it had.');
			}
		}
	},

	// sketch says that the page does not have all yet.
	sketch() { return head.sketch ? `So far this is ${head.sketch}. All are being read${this.status.progress ? ': ' + this.status.progress : ''} …` : ''; },

	note(text) {
		let e = byId('live-note');
		if (!e && text) byId('left-out').before(e = el('p', {id: 'live-note', class: 'note', role: 'status'}));
		if (e) {
			e.hidden = !text;
			e.textContent = text;
		}
	},

	// update shows newer data. Functions, groups and goroutines have other numbers in them.
	async update(next) {
		const old = D, rows = G, functions = (list) => list.map((fn) => [old.strings[old.fnName[fn]], old.strings[old.fnFile[fn]]].join('\n'));
		await loadData(next);
		const number = new Map(functionNames().map((name, fn) => [name, fn]));
		const translate = (list) => functions(list).map((name) => number.get(name)).filter((fn) => fn !== undefined);
		const group = (g) => D.groups.indexOf(old.groups[g]);
		const steps = (range) => range && strip.atSteps(range[0], range[1]);
		const zoom = translate(S.zoom);
		Object.assign(S, {
			zoom: zoom.length === S.zoom.length ? zoom : [], removed: translate(S.removed), selected: S.selected < 0 ? -1 : translate([S.selected])[0] ?? -1,
			group: S.group < 0 ? -1 : group(S.group), folded: S.folded.map(group).filter((g) => g >= 0), range: steps(S.range), second: steps(S.second), lock: -1, finding: -1,
			goroutine: S.goroutine < 0 ? -1 : G.gId.findIndex((id, i) => id === rows.gId[S.goroutine] && G.gSide[i] === rows.gSide[S.goroutine]),
		});
		showData();
		change({});
		piece('source').then((p) => { source = p; }, () => {});
	},

	// chips returns links to the page of the selected range, and back to that of all.
	chips() {
		if (!head.live) return [];
		const again = this.status.again ? [el('a', {class: 'chip', id: 'again', 'data-key': 'again', href: './?new=1', title: 'take a new profile of the program'}, 'record again')] : [];
		if (head.sides.length > 1) return again;
		const list = again, start = head.sides[0].start_us;
		if (S.range && !S.second && (head.left_out.length || head.no_latency || head.sketch)) {
			const q = new URLSearchParams({from: start + S.range[0], to: start + S.range[1]});
			list.push(el('a', {class: 'chip', id: 'detail', 'data-key': 'detail', href: '?' + q, title: 'read this range again, with all that the page leaves out'}, 'this range in detail'));
		}
		if (location.search) list.push(el('a', {class: 'chip', id: 'whole', 'data-key': 'whole', href: './'}, 'back to the whole profile'));
		return list;
	},
};

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const functionNames = () => Array.from(D.fnName, (s, fn) => D.strings[s] + '\n' + fnFile(fn));

// showData prepares what is worked out once of the data.
function showData() {
	sumsKey = groupSumsKey = flame.key = goroutines.binsKey = heat.key = '';
	tables.first = null;
	searched.clear();
	strip.foundKey = '';
	tables.waits = {};
	instant.open.clear();
	for (const p of panels) {
		p.key = '';
		nudged.add(p.name); // nothing of the data before may stay
	}
	strip.prepare();
	goroutines.prepare();
	controls.describe();
}
