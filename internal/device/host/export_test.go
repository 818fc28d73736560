package host

import "context"

// OpenStruck is Open with a hook around each write of the ledger, where tests kill.
func OpenStruck(ctx context.Context, cfg Config, strike func(after bool)) (*Board, error) {
	l, err := openLedger(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	l.strike = strike
	b := load(cfg, l)
	b.Resume(ctx)
	return b, nil
}

// Tell is what the kernel's log or the driver says of a card.
func (b *Board) Tell(s Signal) { b.hear(s) }

// ResetIdle is what Watch does now and then.
func (b *Board) ResetIdle(ctx context.Context) { b.resetIdle(ctx) }
