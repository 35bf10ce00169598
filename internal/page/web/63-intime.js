// One goroutine in the order of time: its stacks from left to right, drawn as a flame graph. What is the same function at the same depth without
// a pause is one box. The time is that of the strip.

const inTime = {
	layout(width) {
		const out = [], i = S.goroutine;
		if (i < 0) return out;
		flame.sums = [sums()[0], null];
		const [from, to] = strip.view(), x = (us) => (Math.max(from, Math.min(to, us)) - from) / (to - from) * width, k = D.classes.length;
		const root = this.box(null, 0, from, null), open = []; // open: the boxes of the present stack
		root.to = to;
		const close = (depth, end) => {
			while (open.length > depth) {
				const b = open.pop();
				b.to = end;
				const at = x(b.from), w = x(end) - at;
				if (w >= 0.5) out.push({box: b, x: at, w, y: b.depth});
			}
		};
		for (let r = goroutines.start[i], t = G.gStart[i]; r < goroutines.start[i + 1] && t < to; t += G.runLength[r++]) {
			const rec = G.runRecord[r], end = t + G.runLength[r];
			if (end <= from) continue;
			if (rec < 0 || leftOut(D.recClass[rec])) {
				close(0, t);
				continue;
			}
			const stack = [];
			for (let n = D.recNode[rec]; n > 0; n = D.caller[n]) stack.push(n);
			stack.reverse();
			let same = 0;
			while (same < open.length && same < stack.length && open[same].fn === D.fn[stack[same]]) same++;
			close(same, t);
			stack.forEach((n, depth) => {
				if (depth >= open.length) open.push(this.box(D.fn[n], depth + 1, t, open[depth - 1] || root));
				if (!open[depth].nodes.includes(n)) open[depth].nodes.push(n);
			});
			const length = Math.min(end, to) - Math.max(t, from);
			for (const b of [root, ...open]) {
				b.shares[D.recClass[rec]] += length;
				b.value += length;
			}
		}
		close(0, Math.min(to, goroutines.end(i)));
		out.unshift({box: root, x: 0, w: width, y: 0});
		return out;
	},

	box(fn, depth, from, parent) {
		const b = new Box(fn, false, depth);
		return Object.assign(b, {parent, from, to: 0, kids: [], shares: D.classes.map(() => 0)});
	},

	// zoomTo draws only the time of a box.
	zoomTo(box) { change({view: box.fn === null ? null : strip.atSteps(box.from, box.to)}); },

	said() {
		const [from, to] = strip.view();
		if (S.goroutine >= 0) return [el('span', null, `${whose()} from ${moment(from)} to ${moment(to)}, ${groupName(G.gGroup[S.goroutine])}. A click draws only the time of a box.`)];
		if (!G.gId.length) return [el('span', null, 'No goroutine has a row of its own.')];
		return [el('span', null, 'A click on a goroutine below shows its stacks in the order of time. '), el('button', {'data-key': 'busiest', onclick: () => change({goroutine: this.busiest(), group: -1})}, 'The one with the most time')];
	},

	// busiest returns the goroutine with the most time that is shown, without what stays at one place from begin to end.
	busiest() {
		let best = 0, most = -1;
		for (let i = 0; i < G.gRuns.length; i++) {
			let time = 0;
			for (let k = goroutines.start[i]; k < goroutines.start[i + 1]; k++) if (G.runRecord[k] >= 0 && wanted(G.runRecord[k]) && !D.recRests[G.runRecord[k]]) time += G.runLength[k];
			if (time > most) [best, most] = [i, time];
		}
		return best;
	},
};
