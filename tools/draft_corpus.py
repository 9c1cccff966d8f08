#!/usr/bin/env python3
"""Prompts to train a draft head from, made up from lists of words: a JSONL file for `surety train-draft --data`.

Four kinds of retail finance (enquiries to be sorted, letters, extraction into JSON, explanations of terms), general
questions and small programs, in equal shares or as --shares says. The same seed gives the same file; no prompt comes
twice.

Usage: tools/draft_corpus.py [--n 1000] [--seed 1] [--shares 2,2,2,2,4,2] >prompts.jsonl
"""

import argparse
import json
import random


def words(text):
    return [word.strip() for word in text.replace("\n", " ").split(",")]


def lines(text):
    return text.strip().split("\n")


NAMES = words("""
Amara Okafor, Ben Castle, Chloe Varga, Dmitri Holm, Elena Rossi, Farid Nasser, Grace Lindqvist, Hugo Marin, Ines
Duarte, Jonas Weber, Kavya Menon, Liam Doyle, Mei Tanaka, Nadia Petrova, Omar Haddad, Priya Shah, Quentin Morel,
Rosa Jimenez, Samir Patel, Tove Berg, Uma Krishnan, Viktor Kral, Wendy Cho, Yusuf Demir, Zoe Fraser
""")
CITIES = words("""
Leeds, Porto, Graz, Utrecht, Lyon, Turku, Bergen, Cork, Ghent, Malmo, Seville, Trieste, Brno, Gdansk, Basel,
Aarhus
""")
PRODUCTS = words("""
current account, savings account, credit card, personal loan, mortgage, car insurance, home insurance, pension
plan, student loan, overdraft, fixed-term deposit, prepaid card, travel insurance, share portfolio, joint
account, business account, life insurance, car loan
""")
TERMS = words("""
annual percentage rate, compound interest, overdraft, direct debit, standing order, credit score, collateral,
excess of an insurance policy, guarantor, fixed-rate mortgage, early repayment charge, inflation,
diversification, index fund, dividend, bond, money laundering check, two-factor authentication, chargeback,
foreign transaction fee, loan-to-value ratio, annuity, grace period, credit limit, balance transfer, liquidity,
pension contribution, tax allowance, joint liability, cooling-off period
""")
TOPICS = words("""
bread, bicycles, the moon, rivers, volcanoes, bees, chess, coffee, glass, maps, music, paper, rainbows,
railways, sleep, soap, spiders, steel, tea, tides, trees, vaccines, whales, windmills, wool, lighthouses, the
human heart, magnets, deserts, earthquakes, libraries, clocks, bridges, clouds, dinosaurs, electric cars,
gardens, honey, islands, kites, lakes, mushrooms, oceans, penguins, rice, satellites, snow, sugar, telescopes,
violins
""")
MONTHS = ("January", "March", "April", "June", "August", "October", "December")
DAYS = [f"{day} {month}" for day in range(1, 29) for month in MONTHS]
CATEGORIES = ["payments", "cards", "lending", "fees", "fraud", "account access", "complaint", "change of details"]
AUDIENCES = lines("""
a customer of sixty-five
a student with a first job
somebody who has just moved to the country
a small shop owner
a teenager
a colleague in training
a customer who is upset
a family with two children
""")
EVENTS = lines("""
a payment of {amount} was taken twice
my card was declined at a shop in {city}
the interest rate changed without notice
I was charged a fee of {amount} that I do not recognise
my standing order did not go out on {day}
I moved to {city} and my letters still go to the old address
I cannot log in to the app since {day}
I lost my card in {city}
I want to close my {product}
I would like to increase the limit of my {product}
a transfer of {amount} to {name} has not arrived
I was promised a refund of {amount} and nothing came
the branch in {city} gave me wrong advice
my direct debit was returned
I want to add {name} to my {product}
someone called and asked for my passcode
my statement of {day} is missing
the exchange rate on my trip to {city} was worse than shown
""")
LETTERS = lines("""
a letter that confirms the closing of a {product}
an apology for a late transfer of {amount}
a reminder that the {product} of {name} ends on {day}
a reply to {name}, who says: "{event}"
a notice that fees of the {product} change on {day}
an invitation to a talk about the {product} in {city}
a short message that the documents for the {product} are complete
a refusal of a {product}, polite and with the next steps
""")
GENERAL = lines("""
What is interesting about {topic}?
Explain to a child how {topic} came to be.
Write a short story about {name} and {topic}.
Give five facts about {topic}.
Write a poem of eight lines about {topic}.
What are the uses of {topic}?
Compare {topic} and {topic2}.
Write a dialogue between {name} and {name2} about {topic}.
How would you plan a weekend in {city}?
Make a list of questions about {topic}.
Why do people like {topic}?
Summarise what is known about {topic} in three sentences.
What should a beginner know about {topic}?
Write an email in which {name} asks {name2} about {topic}.
Describe {topic} without using the word itself.
What is {a} plus {b}?
Write a Python function that counts how often a word comes up in a text about {topic}.
Translate into plain words: {topic} matter.
Give advice to {name}, who is afraid of {topic}.
What are the advantages and disadvantages of {topic}?
Name three books about {topic}.
Write a speech about {topic} for a school in {city}.
What would the world be without {topic}?
How are {topic} and {topic2} related?
""")
CODE = lines("""
Write a {language} function that {task}.
Write a {language} function that {task}, with an example of its use.
Show me how to write a program in {language} that {task}.
Write a {language} function that {task}, and explain how it works.
Write tests in {language} for a function that {task}.
""")
LANGUAGES = ("Python", "Python", "Python", "Java", "JavaScript", "C++", "SQL", "Go")
TASKS = lines("""
adds up the {items}
finds the largest of the {items}
sorts the {items} by {field}
counts how many {items} there are for each {field}
removes {items} that come twice
reads {items} from a CSV file
writes {items} to a JSON file
checks whether {items} have a valid {field}
finds {items} whose {field} lies in a range
groups the {items} by {field}
computes the mean and the median {field} of {items}
merges two sorted lists of {items} by {field}
searches {items} by a part of their {field}
splits {items} into pages of twenty
turns the {field} of {items} into text
finds pairs of {items} with the same {field}
""")
ITEMS = words("""
numbers, payments, customers, accounts, orders, words of a text, dates, invoices, students, cities, books, files,
temperatures, prices, messages, points in the plane
""")
FIELDS = words("amount, date, name, length, price, city, age, number, size, first letter")


class Maker:
    def __init__(self, seed):
        self.draw = random.Random(seed)

    def fill(self, text):
        draw = self.draw
        whole = draw.choice((draw.randint(2, 99), draw.randint(100, 5000)))
        values = {"amount": f"{draw.choice('£€$')}{whole}.{draw.randint(0, 99):02}", "city": draw.choice(CITIES),
                 "day": draw.choice(DAYS), "product": draw.choice(PRODUCTS), "name": draw.choice(NAMES),
                 "name2": draw.choice(NAMES), "topic": draw.choice(TOPICS), "topic2": draw.choice(TOPICS),
                 "a": draw.randint(2, 900), "b": draw.randint(2, 900)}
        values |= {"language": draw.choice(LANGUAGES), "items": draw.choice(ITEMS), "field": draw.choice(FIELDS)}
        values["task"] = draw.choice(TASKS).format(**values)
        values["event"] = draw.choice(EVENTS).format(**values)
        return text.format(**values)

    def enquiry(self):
        event = self.fill("{event}")
        return (f"Sort this enquiry into one of: {', '.join(CATEGORIES)}. Say why in one sentence.\n\n"
                f"\"Hello, {event}. What can be done? {self.draw.choice(NAMES)}\"")

    def letter(self):
        tone = self.draw.choice(("friendly", "formal", "short and clear", "warm"))
        return self.fill(f"Write {self.draw.choice(LETTERS)}. Tone: {tone}.")

    def extraction(self):
        fields = self.draw.sample(("name", "city", "product", "amount", "date", "request"), self.draw.randint(3, 6))
        return (f"Answer with JSON that has the fields {', '.join(fields)}.\n\n" +
                self.fill("{name} from {city} writes on {day} about a {product}: {event}. The sum is {amount}."))

    def explanation(self):
        how = self.draw.choice(("Explain", "Describe in simple words", "Give an example of", "Explain with numbers",
                                "List the risks and benefits of"))
        return f"{how} the term \"{self.draw.choice(TERMS)}\" to {self.draw.choice(AUDIENCES)}."

    def general(self):
        return self.fill(self.draw.choice(GENERAL))

    def code(self):
        return self.fill(self.draw.choice(CODE))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=1000, help="prompts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shares", default="1,1,1,1,1,1",
                        help="enquiries, letters, extraction, explanations, general questions, programs")
    args = parser.parse_args()
    maker = Maker(args.seed)
    kinds = (maker.enquiry, maker.letter, maker.extraction, maker.explanation, maker.general,
             maker.code)
    shares = [float(x) for x in args.shares.split(",")]
    if len(shares) != len(kinds) or min(shares) < 0 or sum(shares) == 0:
        parser.error(f"--shares: {len(kinds)} numbers from 0")
    seen = set()
    misses = 0
    while len(seen) < args.n:
        prompt = maker.draw.choices(kinds, shares)[0]()
        misses = misses + 1 if prompt in seen else 0
        if misses > 10000:
            parser.error(f"only {len(seen)} different prompts can be made with these shares")
        if prompt not in seen:
            seen.add(prompt)
            print(json.dumps({"prompt": prompt}, ensure_ascii=False))


if __name__ == "__main__":
    main()
