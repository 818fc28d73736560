// Package app is Tenon's rules: one use-case per method of App, one file per
// resource. Each authorises, changes everything that belongs together in one
// transaction (the change, its audit row, its event, its idempotency row) and
// then wakes whoever goes on with it. It knows no HTTP and no SQL.
//
// Names: a project, instance, image… is given by its name or its printed id.
// What does not exist and what is another organisation's are the same NotFound.
//
// Imports: authz, authn, postgres, placement, billing, gpu, nodewire, cloud.
package app
