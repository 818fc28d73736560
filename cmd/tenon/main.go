// Command tenon drives a Tenon cloud from a shell.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/cli"
)

// version is set by the build.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], version, cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Config: cli.ConfigPath(), Now: time.Now,
	})
	stop()
	os.Exit(code)
}
