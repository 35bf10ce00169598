// What pointer and keys do in the flame graph.

Object.assign(flame, {
	zoomTo(box) {
		if (S.graph === 'time') return inTime.zoomTo(box);
		const path = box.fn === null || S.selected >= 0 && box === this.root ? [] : box.path();
		if (S.selected >= 0) path.shift();
		if (box.up && S.selected >= 0) return change({selected: box.fn, zoom: []});
		change({zoom: path});
	},

	start() {
		const c = byId('flame');
		c.addEventListener('click', (e) => {
			const b = this.at(e);
			if (!b) return;
			this.focus = b.box;
			nudge('flame');
			if (e.shiftKey && b.box.fn !== null) change({selected: b.box.fn, zoom: []});
			else if (e.altKey && b.box.fn !== null) this.remove(b.box.fn);
			else this.zoomTo(b.box);
		});
		c.addEventListener('pointermove', (e) => {
			const b = this.at(e);
			if (!b) return tip(null);
			tip(this.lines(b.box), e, sourceOf(b.box));
		});
		c.addEventListener('pointerleave', () => tip(null));
		c.addEventListener('keydown', (e) => this.keydown(e));
		tree.start();
	},

	remove(fn) { change({removed: [...S.removed, fn], zoom: [], selected: S.selected === fn ? -1 : S.selected}); },

	keydown(e) {
		const now = this.boxes.find((b) => b.box === this.focus);
		const go = (b) => {
			if (!b) return;
			this.focus = b.box;
			byId('flame-scroll').scrollTop = Math.max(0, b.y * this.row - 80);
			nudge('flame');
		};
		const beside = (step) => {
			if (!now) return go(this.boxes[0]);
			const row = this.boxes.filter((b) => b.y === now.y).sort((a, b) => a.x - b.x);
			go(row[row.indexOf(now) + step]);
		};
		const inRow = (y) => {
			if (!now) return go(this.boxes[0]);
			const row = this.boxes.filter((b) => b.y === y);
			go(row.find((b) => b.box.parent === now.box || now.box.parent === b.box) || row.find((b) => b.x <= now.x + 0.01 && b.x + b.w > now.x));
		};
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		switch (e.key) {
		case 'ArrowDown': inRow(now ? now.y + 1 : 0); break;
		case 'ArrowUp': inRow(now ? now.y - 1 : 0); break;
		case 'ArrowLeft': beside(-1); break;
		case 'ArrowRight': beside(1); break;
		case 'Enter': if (now) this.zoomTo(now.box); break;
		case 'Backspace': change(S.graph === 'time' ? {view: null} : {zoom: S.zoom.slice(0, -1)}); break;
		case 'Home': change({zoom: []}); break;
		case 'u': if (now && now.box.fn !== null) change({selected: now.box.fn, zoom: []}); break;
		case 'x': case 'Delete': if (now && now.box.fn !== null) this.remove(now.box.fn); break;
		default: return;
		}
		e.preventDefault();
		e.stopPropagation();
	},

	widest(list) { return list.reduce((best, b, i) => b.w > list[best].w ? i : best, 0); },

	// nextMatch moves the focus to the next box that fits the search.
	nextMatch(step) {
		strip.reveal();
		const found = matches();
		if (!found) return;
		const list = this.boxes.filter((b) => b.box.fn !== null && b.box.nodes.some((n) => found[n] === 2));
		if (!list.length) return;
		const i = list.findIndex((b) => b.box === this.focus), b = list[i < 0 ? (step > 0 ? this.widest(list) : list.length - 1) : (i + step + list.length) % list.length];
		this.focus = b.box;
		byId('flame-scroll').scrollTop = Math.max(0, b.y * this.row - 80);
		nudge('flame');
	},
});
