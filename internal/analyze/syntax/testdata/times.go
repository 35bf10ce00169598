package main

func (s *sender) send(ctx context.Context, done chan error) error {
	late, tick := time.NewTimer(pause), time.NewTicker(pause)
	select { // delay
	case <-time.After(pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	select { // delay
	case <-late.C:
	case <-ctx.Done():
	}
	select { // tick
	case now := <-tick.C:
		s.flush(now)
	case <-s.quit:
		return nil
	}
	<-s.ticker.C // one tick
	go func() {
		<-tick.C // tick
	}()
	select { // delay
	case <-time.After(pause):
	case <-tick.C:
	}
	select { // delay
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	for range time.Tick(pause) { // tick
		s.flush()
	}
	select { // one tick
	case <-ctx.Done():
		return ctx.Err()
	case <-s.timer.C():
	}
	select { // an answer, or not for long
	case err := <-done:
		return err
	case <-time.After(pause):
	}
	select { // the same
	case <-done:
		return nil
	case <-time.After(pause):
		return errLate
	}
	select { // work
	case x := <-s.queue:
		s.flush(x)
	case <-tick.C:
	}
	select { // work
	case <-s.wake:
	case <-tick.C:
	}
	select { // goes on
	case <-time.After(pause):
	default:
	}
	<-done // an answer
	return nil
}
