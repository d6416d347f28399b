package peer

import (
	"context"
)

// receive takes the next message off the connection.
func (r *run) receive(ctx context.Context) (message, error) {
	t, b, err := r.conn.Receive(ctx)
	switch {
	case err != nil:
		return message{}, err
	case t != typeMessage:
		return message{}, malformed("a message of %v", t)
	}
	return readMessage(b)
}

// listen begins to read.
func (r *run) listen() {
	r.listening = true
	r.reading.Go(r.read)
}

// read takes the peer's messages until the conversation is over.
func (r *run) read() {
	for {
		m, err := r.receive(r.ctx)
		if err != nil {
			r.cancel(err)
			close(r.inbox)
			return
		}
		select {
		case r.inbox <- m:
		default:
			r.cancel(malformed("more messages than were asked for"))
		}
		if m.Error != nil { // its last word
			r.cancel(m.Error.err())
			close(r.inbox)
			return
		}
	}
}

// tell sends a message.
func (r *run) tell(m message) error {
	b, err := m.bytes()
	if err != nil {
		return err
	}
	err = r.conn.Send(typeMessage, b)
	if err != nil && r.listening {
		// The conversation is over, and what came before that says more.
		r.reading.Wait()
		if cause := context.Cause(r.ctx); cause != nil {
			err = cause
		}
	}
	return err
}

// hear waits for the next message, which must be of the kind and step given. One that
// has come counts, though the peer has left since, or time is over.
func (r *run) hear(ctx context.Context, k kind, step Name) (message, error) {
	var m message
	var ok bool
	select {
	case m, ok = <-r.inbox:
	case <-ctx.Done():
		select {
		case m, ok = <-r.inbox:
		default:
			return message{}, context.Cause(ctx)
		}
	}
	switch {
	case !ok:
		return message{}, context.Cause(r.ctx)
	case m.Error != nil:
		r.last(m)
		return message{}, m.Error.err()
	case m.Kind != k || m.Step != step:
		return message{}, malformed("%s of step %q where %s of %q was due", m.Kind, m.Step, k, step)
	}
	return m, nil
}

// last notes what the other side said of a step as it failed, or of another's failure.
func (r *run) last(m message) {
	st := r.result.step(m.Step)
	if st == nil {
		if st = r.result.step(r.at); st == nil {
			return
		}
	}
	if m.Error != nil {
		st.PeerError = m.Error.Text
	}
	st.PeerEvidence = append(st.PeerEvidence, m.Evidence...)
}
