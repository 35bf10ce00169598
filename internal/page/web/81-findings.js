// Findings are what the analyses say. A file has those of the whole profile. A server finds those of the selected range when they
// are looked at.

const findings = {
	whole: null, // the piece "tables" of a file
	kept: new Map(), // by what and range: {sides, diff, note, generation, busy}
	most: 20,
	rest: 10000, // ms after which those of a profile that grows are asked for again

	// of returns findings: {sides, note, range}. There are no sides while a server looks for them.
	of(what) {
		const range = head.live && head.sides.length === 1 && !S.second ? S.range : null;
		let note = S.range || S.second ? 'Of the whole profile, whatever range is selected.' : '';
		if (head.live && head.sides.length === 1) note = range ? `Of the selected range, ${duration(range[1] - range[0])}.` : S.second ? 'Of the whole profile, not of the two ranges.' : '';
		else if (note && head.sides.length === 1) note += ' In gotach view these tables are of the selected range.';
		if (this.whole) return {sides: this.whole.sides, note};
		const k = this.ask(what, range);
		return {sides: k.sides || [], note: (k.omitted || []).concat(k.sides ? note : '', k.note || '').filter(Boolean).join(' '), range};
	},

	// diff returns what is different between two profiles, null if that is not known.
	diff() {
		if (this.whole) return this.whole.diff;
		return head.sides.length > 1 && this.ask('diff', null).diff || null;
	},

	// ask returns what is there of findings, and asks the server for them if they are not or are old.
	ask(what, range) {
		const key = `${what} ${range}`;
		let k = this.kept.get(key);
		if (!k) {
			k = {note: 'Reading the profile …', generation: 0};
			for (const old of this.kept.keys()) {
				if (this.kept.size < this.most) break;
				this.kept.delete(old);
			}
			this.kept.set(key, k);
		}
		const left = live.status?.growing && k.read ? k.read + this.rest - performance.now() : 0;
		if (!k.busy && k.generation !== head.generation && left > 0) k.timer ||= setTimeout(() => {
			k.timer = 0;
			nudge(what === 'why' ? 'why' : 'tables');
		}, left);
		else if (!k.busy && k.generation !== head.generation) {
			k.busy = true;
			this.load(what, range, k).catch((error) => { Object.assign(k, {note: 'The table cannot be read: ' + error.message, generation: head.generation}); }).finally(() => {
				k.busy = false;
				nudge('tables');
				if (what === 'diff') nudge('flame');
				if (what === 'why') nudge('why');
			});
		}
		return k;
	},

	// wanted reports whether findings are still looked at.
	wanted(what, range) { return what === 'diff' || (what === 'why' ? String(range) === String(why.range) : false) || S.tab === what && (!S.second && JSON.stringify(S.range) === JSON.stringify(range) || range === null && (S.range === null || S.second !== null)); },

	async load(what, range, k) {
		const start = head.sides[0].start_us, generation = head.generation;
		const query = range ? {what, from: start + range[0], to: start + range[1]} : {what};
		await sleep(300); // a range that is being dragged is not read
		for (; this.wanted(what, range); await sleep(400)) {
			const answer = await fetch(live.address('status', 0, query), {cache: 'no-store'});
			if (!answer.ok) throw new Error(await answer.text());
			const s = await answer.json();
			if (s.head) {
				let got;
				try {
					got = await piece('tables', {live: true, generation: s.generation}, query);
				} catch {
					continue; // a newer one took its place
				}
				Object.assign(k, {sides: got.sides, diff: got.diff, omitted: s.head.left_out, note: '', generation, read: performance.now()});
				significant = null;
				return;
			}
			if (s.error) throw new Error(s.error);
			k.note = `Reading the profile: ${s.progress || 'waiting'} …`;
			nudge(what === 'why' ? 'why' : 'tables');
		}
	},
};
