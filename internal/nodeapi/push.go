package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// pusher keeps one connected node's assignment true. It is level-triggered: any
// number of wake-ups are one look.
type pusher struct {
	server *Server
	id     cloud.NodeID
	stop   context.CancelFunc
	kick   chan struct{}

	mu   sync.Mutex
	held *nodewire.Version // what the node last said that it holds; nil: not known
}

// connected starts a node's pusher with its first connection here and ends it
// with its last one. It is the pool's Notify: it must not block, and calls may
// overtake each other, so the pool itself is asked what is so.
func (s *Server) connected(nodeID string, _ bool) {
	var id cloud.NodeID
	if id.UnmarshalText([]byte(nodeID)) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, here := s.pushers[id], s.cfg.Pool.Has(nodeID)
	switch {
	case p != nil && here:
		p.nudge()
	case p != nil:
		s.log.Info("node disconnected", "node", id)
		p.stop()
		delete(s.pushers, id)
	case here && s.ctx != nil && s.ctx.Err() == nil:
		ctx, stop := context.WithCancel(s.ctx)
		p = &pusher{server: s, id: id, stop: stop, kick: make(chan struct{}, 1)}
		s.pushers[id] = p
		s.log.Info("node connected", "node", id)
		s.wg.Go(func() { p.run(ctx) })
	}
}

func (p *pusher) nudge() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// reported compares what a node holds with what it acknowledged: a node that
// lost its ledger gets its assignment again.
func (s *Server) reported(id cloud.NodeID, holds nodewire.Version) {
	s.mu.Lock()
	p := s.pushers[id]
	s.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	behind := p.held != nil && p.held.Newer(holds)
	if behind {
		p.held = nil
	}
	p.mu.Unlock()
	if behind {
		p.nudge()
	}
}

// resync compares now and then what all connected nodes hold with what they
// should, in one look: a wake-up that was lost costs one interval.
func (s *Server) resync(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Timing.Resync)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		err := s.nudgeBehind(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("compare what nodes hold", "error", err)
		}
		if s.cfg.Observer != nil {
			s.cfg.Observer.Ticked("pusher", time.Since(began), err)
		}
	}
}

func (s *Server) nudgeBehind(ctx context.Context) error {
	s.mu.Lock()
	pushers := make([]*pusher, 0, len(s.pushers))
	ids := make([]cloud.NodeID, 0, len(s.pushers))
	for id, p := range s.pushers {
		pushers, ids = append(pushers, p), append(ids, id)
	}
	s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	wanted, err := s.app.NodeGenerations(ctx, ids)
	if err != nil {
		return err
	}
	for _, p := range pushers {
		want, known := wanted[p.id]
		p.mu.Lock()
		same := known && p.held != nil && *p.held == want
		p.mu.Unlock()
		if !same {
			p.nudge()
		}
	}
	return nil
}

func (p *pusher) run(ctx context.Context) {
	defer p.stop()
	woken, done := p.server.cfg.Wakes(p.server.cfg.NodeTopic(p.id))
	defer done()
	const first, last = 50 * time.Millisecond, 5 * time.Second
	wait := first
	for {
		began := time.Now()
		err := p.push(ctx)
		if ctx.Err() == nil && p.server.cfg.Observer != nil {
			p.server.cfg.Observer.Ticked("pusher", time.Since(began), err)
		}
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			p.server.log.Warn("push assignment", "node", p.id, "error", err, "retry_in", wait)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, last)
			continue
		}
		wait = first
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-p.kick:
		}
	}
}

// push sends the assignment if the node does not hold it already.
func (p *pusher) push(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, p.server.cfg.Timing.Push)
	defer cancel()
	as, err := p.server.app.NodeAssignment(ctx, p.id)
	if err != nil {
		return fmt.Errorf("read assignment: %w", err)
	}
	p.mu.Lock()
	same := p.held != nil && *p.held == as.Version
	p.mu.Unlock()
	if same {
		return nil
	}
	raw, err := json.Marshal(as)
	if err != nil {
		return fmt.Errorf("encode assignment: %w", err)
	}
	sent := false
	defer func() {
		if err != nil && sent {
			p.tried(ctx)
		}
	}()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	req, err := http.NewRequestWithContext(traced, http.MethodPut, "http://node"+nodewire.PathAssignment, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.server.cfg.Pool.Transport(p.id.String()).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var held nodewire.Held
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read the node's answer: %w", err)
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusConflict: // it holds a newer one: another replica was first, or we were restored
		if json.Unmarshal(body, &held) == nil {
			p.server.log.Warn("node holds a newer assignment", "node", p.id, "holds_era", clip(held.Era, 64), "holds", held.Generation, "ours", as.Generation)
		}
		return fmt.Errorf("the node holds a newer assignment: (%s, %d), ours is (%s, %d)", clip(held.Era, 64), held.Generation, as.Era, as.Generation)
	default:
		return fmt.Errorf("the node answered %s: %s", res.Status, clip(string(body), maxText))
	}
	if err := json.Unmarshal(body, &held); err != nil || held.Version != as.Version {
		return fmt.Errorf("the node answered that it holds (%s, %d) after (%s, %d) was sent", clip(held.Era, 64), held.Generation, as.Era, as.Generation)
	}
	if err := p.server.app.NodeAck(ctx, p.id, held.Version); err != nil {
		return fmt.Errorf("keep the acknowledgement: %w", err)
	}
	p.mu.Lock()
	p.held = &as.Version
	p.mu.Unlock()
	return nil
}

// tried notes that the node may have had contact that it did not answer: it
// counts its silence from there, and so must whoever fences it.
func (p *pusher) tried(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := p.server.app.NodeTried(ctx, p.id); err != nil {
		p.server.log.Warn("note an unanswered assignment", "node", p.id, "error", err)
	}
}
