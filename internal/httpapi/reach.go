package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/internal/app"
)

// metaReach is where an operation keeps its question whether a caller may do it at
// all: asked before anything is said of what is wrong with the request.
const metaReach = "reach"

type reachFunc func(context.Context) error

// reach asks package app, with the place that the path names.
func (s *server) reach(o operation) reachFunc {
	return func(ctx context.Context) error {
		at, _ := ctx.Value(keyPlace).(app.Place)
		return s.app.Reach(ctx, call(ctx, ""), o.action, at)
	}
}

// placeOf is what a request's path names.
func placeOf(hctx huma.Context) app.Place {
	return app.Place{Org: hctx.Param("org"), Project: hctx.Param("project"), Instance: hctx.Param("instance")}
}

// unreached is the answer to a caller who may not do this, however the request is
// wrong besides; nil: they may, or it needs no sign-in.
func unreached(hctx huma.Context) *answer {
	if hctx == nil || hctx.Operation() == nil {
		return nil
	}
	ask, ok := hctx.Operation().Metadata[metaReach].(reachFunc)
	if !ok {
		return nil
	}
	if err := ask(hctx.Context()); err != nil {
		return answerOf(hctx.Context(), err)
	}
	return nil
}
