//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// watchSize sends the terminal's size whenever its window changes.
func watchSize(ctx context.Context, fd int) <-chan [2]int {
	sizes := make(chan [2]int, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if w, h, err := term.GetSize(fd); err == nil {
				select {
				case sizes <- [2]int{w, h}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return sizes
}
