include_HEADERS += %reldir%/wq.h
