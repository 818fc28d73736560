package host

import "context"

// NoDriver is a vendor's driver that can't be asked, for as long as the program
// runs. Its cards are no others than if it had not answered yet: unknown.
type NoDriver struct{}

var _ Driver = NoDriver{}

// Cards can't be listed; the other methods can't do anything either.
func (NoDriver) Cards(context.Context) ([]DriverCard, error) { return nil, ErrNoDriver }

// Profiles implements Driver.
func (NoDriver) Profiles(context.Context, string) ([]MIGProfile, error) { return nil, ErrNoDriver }

// Instances implements Driver.
func (NoDriver) Instances(context.Context, string) ([]GPUInstance, error) { return nil, ErrNoDriver }

// CreateInstance implements Driver.
func (NoDriver) CreateInstance(context.Context, string, int, int) error { return ErrNoDriver }

// DestroyInstance implements Driver.
func (NoDriver) DestroyInstance(context.Context, string, int) error { return ErrNoDriver }

// SetMIG implements Driver.
func (NoDriver) SetMIG(context.Context, string, bool) (MIGMode, error) { return MIGMode{}, ErrNoDriver }

// Reset implements Driver.
func (NoDriver) Reset(context.Context, string) error { return ErrNoDriver }

// Defaults implements Driver.
func (NoDriver) Defaults(context.Context, string) error { return ErrNoDriver }

// SetPersistence implements Driver.
func (NoDriver) SetPersistence(context.Context, string, bool) error { return ErrNoDriver }

// Samples implements Driver.
func (NoDriver) Samples(context.Context) ([]DriverSample, error) { return nil, ErrNoDriver }

// Watch implements Driver.
func (NoDriver) Watch(context.Context, func(DriverEvent)) error { return ErrNoDriver }

// Close implements Driver.
func (NoDriver) Close() error { return nil }
