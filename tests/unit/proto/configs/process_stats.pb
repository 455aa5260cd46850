
€  *
(
linux.process_statsº è0NPØ>