# Prints every sample of the named files as CPython's own reader returns it.
import json, sys
import _remote_debugging

def dumps(o):
    return json.dumps(o, ensure_ascii=False, separators=(",", ":"))

class Collector:
    def collect(self, stack_frames, timestamps_us=None):
        for interpreter in stack_frames:
            for thread in interpreter.threads:
                frames = dumps([[f[0], f[2], -1 if f[1] is None else f[1][0]] for f in thread.frame_info])
                for t in timestamps_us:
                    print('{"thread_id":%d,"interpreter_id":%d,"timestamp":%d,"status":%d,"frames":%s}' % (
                        thread.thread_id, interpreter.interpreter_id, t, thread.status, frames))

sys.stdout.reconfigure(encoding="utf-8", errors="surrogatepass")
for path in sys.argv[1:]:
    reader = _remote_debugging.BinaryReader(path)
    reader.replay(Collector())
    reader.close()
