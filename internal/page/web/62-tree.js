// The call tree: the boxes of the flame graph as a table that unfolds. It begins with the way on which nearly all time is.

const tree = {
	open: new Set(), shut: new Set(), // paths that the user unfolded and folded
	rows: [], focus: '', most: 400,

	// isOpen reports whether a box is unfolded: at first the root, and what has nearly all time of the box above.
	isOpen(box, path) {
		if (this.open.has(path) || this.shut.has(path)) return this.open.has(path);
		return !box.parent || box.size() > 0.8 * (box.parent.size() || 1) && this.isOpen(box.parent, path.slice(0, path.lastIndexOf('.')));
	},

	// layout returns the rows that are shown.
	layout() {
		const out = [];
		const add = (box, path, level) => {
			if (out.length >= this.most) return;
			const open = box.children().length > 0 && this.isOpen(box, path);
			out.push({box, path, level, open});
			if (open) for (const k of box.children()) add(k, path + '.' + k.fn, level + 1);
		};
		if (!nothing()) add(flame.root, String(flame.root.fn), 1);
		return out;
	},

	draw() {
		this.rows = this.layout();
		if (!this.rows.some((r) => r.path === this.focus)) this.focus = this.rows.length ? this.rows[0].path : '';
		const [a, b] = flame.sums, found = matches(), cells = [['Total', ''], [b ? 'B' : '% of all', ''], ['', 'extra bars'], ['Self', 'extra'], ['Function', 'name']];
		if (b) cells[0][0] = 'A';
		put(byId('tree'), el('table', {role: 'treegrid', 'aria-label': 'Call tree'},
			el('thead', null, el('tr', null, ...cells.filter((_, i) => !b || i !== 2 && i !== 3).map(([name, cls]) => el('th', {scope: 'col', class: cls || null}, name || el('span', {class: 'hidden'}, 'by state'))))),
			el('tbody', null, ...this.rows.map((r) => this.tr(r, a, b, found)))), this.rows.length >= this.most ? el('p', {class: 'same'}, `Only ${this.most} rows are shown: fold some.`) : null);
	},

	tr(r, a, b, found) {
		const {box, path, level, open} = r, own = box.fn !== null && D.fnCode[box.fn] === 6, kids = box.children().length > 0;
		const self = flame.ends ? box.parent ? 0 : box.value : box.nodes.reduce((sum, n) => sum + a.self[n], 0);
		const name = el('td', {class: 'name', role: 'gridcell'}, el('span', {class: 'fold', 'aria-hidden': 'true'}, kids ? open ? '▾' : '▸' : ''),
			el(own ? 'b' : 'span', null, flame.name(box)), ' ', el('span', {class: 'at'}, box.fn === null ? '' : tables.range(box.fn)));
		name.style.paddingLeft = Math.min(24, level - 1) * 12 + 4 + 'px';
		const bar = tables.meter(flame.shares(box), a.all);
		bar.setAttribute('role', 'gridcell');
		const number = (v, text, cls) => el('td', {role: 'gridcell', class: cls || null, 'data-ns': v === null ? null : nanos(v)}, text);
		return el('tr', {role: 'row', tabindex: path === this.focus ? '0' : '-1', 'data-key': path, 'aria-level': String(level), 'aria-expanded': kids ? String(open) : null,
			class: found && box.fn !== null && box.nodes.some((n) => found[n] === 2) ? 'match' : null, 'aria-selected': String(box.fn !== null && S.selected === box.fn)},
		...b ? [number(box.value, duration(box.value)), number(box.other, duration(box.other))] :
			[number(box.value, duration(box.value)), number(null, percent(box.value, a.all)), bar, number(self, duration(self), 'extra')], name);
	},

	// row returns the row that has or had the focus.
	row() { return byId('tree').querySelector('tr[tabindex="0"]'); },

	go(r) {
		if (!r) return;
		this.focus = r.path;
		this.draw();
		this.row().focus();
	},

	fold(r, open) {
		(open ? this.open : this.shut).add(r.path);
		(open ? this.shut : this.open).delete(r.path);
		this.go(r);
	},

	// hot unfolds below a row where most time is, as long as it is more than half.
	hot(r) {
		let {box, path} = r;
		for (let next = box; next && next.size() >= box.size() / 2; next = next.children()[0]) {
			if (next !== box) path += '.' + next.fn;
			if (next.children().length) this.open.add(path);
			this.shut.delete(path);
		}
		this.go(r);
	},

	start() {
		const t = byId('tree');
		const at = (e) => this.rows.find((r) => r.path === e.target.closest('tbody tr')?.dataset.key);
		t.addEventListener('click', (e) => {
			const r = at(e);
			if (r && e.shiftKey && r.box.fn !== null) change({selected: r.box.fn, zoom: []});
			else if (r) this.fold(r, !r.open);
		});
		t.addEventListener('keydown', (e) => {
			const r = at(e), i = this.rows.indexOf(r);
			if (!r || e.ctrlKey || e.metaKey || e.altKey) return;
			if (e.key === 'ArrowDown') this.go(this.rows[i + 1]);
			else if (e.key === 'ArrowUp') this.go(this.rows[i - 1]);
			else if (e.key === 'Home') this.go(this.rows[0]);
			else if (e.key === 'End') this.go(this.rows[this.rows.length - 1]);
			else if (e.key === 'ArrowRight') r.open || !r.box.children().length ? this.go(this.rows[i + 1]) : this.fold(r, true);
			else if (e.key === 'ArrowLeft') r.open ? this.fold(r, false) : this.go(this.rows.find((x) => x.box === r.box.parent));
			else if (e.key === '*') this.hot(r);
			else if (e.key === ' ') this.fold(r, !r.open);
			else if ((e.key === 'Enter' || e.key === 'u') && r.box.fn !== null) change({selected: r.box.fn, zoom: []});
			else if ((e.key === 'x' || e.key === 'Delete') && r.box.fn !== null) flame.remove(r.box.fn);
			else return;
			e.preventDefault();
			e.stopPropagation();
		});
	},
};
