//go:build !unix

package cli

import (
	"context"
	"time"

	"golang.org/x/term"
)

// watchSize looks at the terminal's size now and then: there is no signal here.
func watchSize(ctx context.Context, fd int) <-chan [2]int {
	sizes := make(chan [2]int, 1)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var last [2]int
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if w, h, err := term.GetSize(fd); err == nil && last != [2]int{w, h} {
				last = [2]int{w, h}
				select {
				case sizes <- last:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return sizes
}
