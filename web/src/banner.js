/*! Contains Preact 11.2.0, MIT License, Copyright (c) 2015-present Jason Miller: web/vendor/preact/LICENSE in the source of Holdfast. */
