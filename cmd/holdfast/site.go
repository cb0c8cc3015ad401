package main

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
)

// site checks the tokens of the existing site; nil if there is none.
func (s *service) site() (*sitejwt.Verifier, error) {
	of := s.config.SignIn
	if of.JWTIssuer == "" {
		return nil, nil
	}
	keys := sitejwt.FromFile(of.JWKSFile)
	if of.JWKSURL != "" {
		keys = sitejwt.FromURL(string(of.JWKSURL))
	}
	return sitejwt.New(sitejwt.Config{Issuer: of.JWTIssuer, Audience: of.JWTAudience, Fetch: keys, Now: time.Now, Log: s.log})
}
