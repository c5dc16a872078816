-- Records of one scope may overlap, with the same range too: they add up.
DROP TRIGGER records_do_not_overlap;
DROP TRIGGER records_do_not_overlap_changed;
DROP INDEX records_of_consumer;
CREATE INDEX records_of_consumer ON records (consumer, valid_from, id);
