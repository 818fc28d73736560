package app

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// StreamEvent is an event with its place in the stream.
type StreamEvent struct {
	cloud.Event
	ID string // for Last-Event-ID
}

// EventStream reads a project's events as they happen.
type EventStream struct{}

// Next waits for the next events. It fails when ctx ends or when the reader's
// session, token or membership is over.
func (s *EventStream) Next(ctx context.Context) ([]StreamEvent, error) { <-ctx.Done(); return nil, ctx.Err() }

// Close ends the stream.
func (s *EventStream) Close() {}
