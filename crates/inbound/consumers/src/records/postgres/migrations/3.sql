-- Records of one scope may overlap, with the same range too: they add up.
DROP TRIGGER consumer_records_do_not_overlap ON consumer_records;
DROP FUNCTION consumer_records_do_not_overlap();
DROP INDEX consumer_records_of_consumer;
CREATE INDEX consumer_records_of_consumer ON consumer_records (consumer, valid_from, id);
