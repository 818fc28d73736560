-- +goose Up
-- A volume that its node says it no longer has is lost, however it says so.

DROP INDEX volume_unsettled;
CREATE INDEX volume_unsettled ON volume (id) WHERE state = 'pending' AND said = 'present' OR state = 'present' AND said IN ('gone', 'failed')
    OR state = 'deleting' AND said = 'gone' OR state = 'present' AND charged_mib IS DISTINCT FROM size_mib OR state <> 'present' AND charged_mib IS NOT NULL;
