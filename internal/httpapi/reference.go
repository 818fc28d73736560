package httpapi

import "github.com/danielgtaylor/huma/v2"

func referencePage(*huma.OpenAPI) ([]byte, error) { return nil, nil }
